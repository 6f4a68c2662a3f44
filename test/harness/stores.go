package harness

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// NewStores returns a new database on the test binary's MariaDB and a Redis for this test alone: the service
// uses a whole Redis, and tests run in parallel.
func NewStores(t *testing.T) Stores {
	t.Helper()
	return Stores{DB: testkit.MariaDB(t), Redis: []string{testkit.NewRedis(t).Addr()}}
}

func WaitReady(t *testing.T, processes ...Process) {
	t.Helper()
	for _, p := range processes {
		p.WaitHTTP(t, p.URL+"/readyz?strict=1")
	}
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
