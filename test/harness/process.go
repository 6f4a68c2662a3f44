package harness

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Process is a service in a process of its own.
type Process struct {
	*testkit.Process
	URL string
}

// Start starts the service in lab mode, unless env says otherwise.
func Start(t *testing.T, s Stores) Process {
	t.Helper()
	return StartProgram(t, SelfPath(t), s)
}

// StartProgram is [Start] with another build of the service.
func StartProgram(t *testing.T, path string, s Stores) Process {
	t.Helper()
	return Served(t, Launch(t, path, s))
}

// Served waits until a process that was launched serves.
func Served(t *testing.T, p *testkit.Process) Process {
	t.Helper()
	return Process{p, p.WaitLine(t, `serving on (http://[^\s,]+)`)[1]}
}

// Launch starts a program as [Start] does, and does not wait until it serves.
func Launch(t *testing.T, path string, s Stores) *testkit.Process {
	t.Helper()
	return testkit.Start(t, testkit.Command{Path: path, Env: append([]string{
		AsService, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1",
		"SECKILL_MYSQL_DSN=" + s.DB.DSN, "SECKILL_REDIS_ADDRS=" + strings.Join(s.Redis, ","),
		"SECKILL_JWT_SECRET=" + Secret, "SECKILL_ADMIN_TOKEN=" + AdminToken,
		"SECKILL_SHUTDOWN_DELAY=0s", // no balancer to wait for
	}, s.Env...)})
}

// SelfPath is the path of the test's binary, which is the service, too.
func SelfPath(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	fail.NowIf(t, err)
	return self
}

// WaitReady waits until every flow of the processes is ready.
func WaitReady(t *testing.T, processes ...Process) {
	t.Helper()
	for _, p := range processes {
		p.WaitHTTP(t, p.URL+"/readyz?strict=1")
	}
}

// Metric reads a metric; its name may have labels.
func (p Process) Metric(t *testing.T, name string) float64 {
	t.Helper()
	_, body := Call(t, http.MethodGet, p.URL+"/metrics", nil, "")
	_, text, found := strings.Cut(body, "\n"+name+" ")
	text, _, _ = strings.Cut(text, "\n")
	n, err := strconv.ParseFloat(text, 64)
	if !found || err != nil {
		t.Fatalf("no %s: %v", name, err)
	}
	return n
}

// WaitInFlight waits until a process has that many running requests, besides the one that asks.
func WaitInFlight(t *testing.T, p Process, n int) {
	t.Helper()
	want := fmt.Sprintf("seckill_http_requests_in_flight %d\n", n)
	deadline := time.Now().Add(Patience)
	for {
		_, body := Call(t, http.MethodGet, p.URL+"/metrics", nil, "")
		if strings.Contains(body, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %q in\n%s", want, body)
		}
	}
}
