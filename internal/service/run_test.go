package service_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestEmbeddedService runs the service as in the first minute of the README: nothing but Go, one command, one
// curl command.
func TestEmbeddedService(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := harness.StartInProcess(t, nil, nil)
	if !strings.Contains(s.Banner, "embedded") || !strings.Contains(s.Banner, "lab mode") {
		t.Errorf("the banner is %q", s.Banner)
	}
	if status, body := s.Buy(t); status != http.StatusCreated || !strings.Contains(body, `"status":"confirmed"`) {
		t.Errorf("the first order: %d %s", status, body)
	}
	if status, body := s.Buy(t); status != http.StatusConflict || !strings.Contains(body, `"already_ordered"`) {
		t.Errorf("the second order: %d %s", status, body)
	}
	audit := strings.TrimSuffix(harness.CurlLine.FindStringSubmatch(s.Curl)[3], "/orders") + "/audit"
	if status, body := harness.Call(t, http.MethodGet, audit, nil, ""); status != http.StatusOK || !strings.Contains(body, `"balanced":true`) {
		t.Errorf("the audit: %d %s", status, body)
	}
	if err := s.End(); err != nil {
		t.Errorf("a stop on request is an error: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "seckill-*")); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
	if logs := harness.Noticed(s.Logs.String()); logs != "" {
		t.Errorf("a normal run logged:\n%s", logs)
	}
}

// The URL in the banner of a service that listens on all interfaces can be opened.
func TestBannerOfAllInterfaces(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		s := harness.StartInProcess(t, []string{"-addr", addr, "-lab-allow-remote"}, nil)
		if !regexp.MustCompile(`^seckill: serving on http://localhost:\d+, .*on all interfaces, lab mode\n$`).MatchString(s.Banner) {
			t.Errorf("%s: the banner is %q", addr, s.Banner)
		}
		if status, body := s.Buy(t); status != http.StatusCreated {
			t.Errorf("%s: %d %s", addr, status, body)
		}
	}
}

// A voucher under a lock whose servers are not configured is refused with the name of the setting.
func TestLockWithoutServersNamesTheSetting(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, nil, nil)
	url := strings.Split(harness.CurlLine.FindStringSubmatch(s.Curl)[3], "/vouchers/")[0] + "/vouchers"
	for lock, setting := range map[string]string{"zk-node": "SECKILL_ZOOKEEPER_ADDRS", "mysql-get-lock": "SECKILL_MYSQL_DSN"} {
		status, body := harness.Call(t, http.MethodPost, url, nil, `{"title":"t","stock":1,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":{"lock":"`+lock+`"}}`)
		if status != http.StatusBadRequest || !strings.Contains(body, "set "+setting) {
			t.Errorf("%s: %d %s", lock, status, body)
		}
	}
}

func TestRedisCounterMintsTheIDs(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, []string{"-ids", "redis-counter"}, nil)
	if status, body := s.Buy(t); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
}

func TestTwoServicesCannotShareAnAddress(t *testing.T) {
	t.Parallel()
	s := harness.StartInProcess(t, nil, nil)
	addr := regexp.MustCompile(`http://(\S+),`).FindStringSubmatch(s.Banner)[1]
	cfg, err := service.ParseConfig([]string{"-addr", addr}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "SECKILL_ADDR") {
		t.Errorf("err = %v, want one that names the setting", err)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	debug := testkit.FreeAddr(t)
	s := harness.StartInProcess(t, []string{"-debug-addr", debug}, nil)
	check := func() error {
		return service.Healthcheck(t.Context(), service.Config{Addr: "127.0.0.1:1", DebugAddr: debug}, io.Discard, io.Discard)
	}
	if err := check(); err != nil {
		t.Errorf("a ready service is not healthy: %v", err)
	}
	// The debug listener's paths are not served by the API's listener.
	addr := regexp.MustCompile(`http://(\S+),`).FindStringSubmatch(s.Banner)[1]
	for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/"} {
		if status, _ := harness.Call(t, http.MethodGet, "http://"+addr+path, nil, ""); status != http.StatusNotFound {
			t.Errorf("%s is public: %d", path, status)
		}
		if status, _ := harness.Call(t, http.MethodGet, "http://"+debug+path, nil, ""); status != http.StatusOK {
			t.Errorf("%s on the debug listener: %d", path, status)
		}
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
	if err := check(); err == nil {
		t.Error("a service that has stopped is healthy")
	}
}

// The health check asks the process itself, whatever proxy the environment names: here one that calls everything
// healthy. Nothing answers at the address, which is for documentation (RFC 5737). It is not one of the loopback
// interface, for which net/http takes no proxy. net/http reads the variable once, hence the process of its own.
func TestHealthcheckUsesNoProxy(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(proxy.Close)
	cmd := exec.CommandContext(t.Context(), harness.SelfPath(t), "healthcheck", "-debug-addr", "192.0.2.1:9100")
	cmd.Env = []string{harness.AsService, "HTTP_PROXY=" + proxy.URL}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "not ready") {
		t.Errorf("%v: %s", err, out)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}
