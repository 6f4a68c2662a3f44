package service_test

import (
	"errors"
	"io"
	"net"
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
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// A debug listener in a network listens at the address in it, where the health check asks, and at no other.
func TestDebugListenerInANetwork(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(testkit.FreeAddr(t))
	fail.NowIf(t, err)
	network := "127.0.0.1/32:" + port
	s := harness.StartInProcess(t, []string{"-debug-addr", network}, nil)
	fail.If(t, service.Healthcheck(t.Context(), service.Config{Addr: "127.0.0.1:1", DebugAddr: network}, io.Discard, io.Discard))
	if status, _ := harness.Call(t, http.MethodGet, "http://127.0.0.1:"+port+"/readyz", nil, ""); status != http.StatusOK {
		t.Errorf("/readyz: %d", status)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.2:"+port); err == nil {
		conn.Close()
		t.Error("it listens at another address too")
	}
	fail.If(t, s.End())
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	debug := testkit.FreeAddr(t)
	s := harness.StartInProcess(t, []string{"-debug-addr", debug, "-jwt-secret", harness.Secret}, nil)
	check := func() error {
		return service.Healthcheck(t.Context(), service.Config{Addr: "127.0.0.1:1", DebugAddr: debug}, io.Discard, io.Discard)
	}
	fail.If(t, check(), "a ready service is not healthy")
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
	// Secrets that were given as flags are not shown: TestCommandLineHidesSecrets has all.
	_, shown := harness.Call(t, http.MethodGet, "http://"+debug+"/debug/pprof/cmdline", nil, "")
	if !strings.Contains(shown, filepath.Base(os.Args[0])) || strings.Contains(shown, harness.Secret) {
		t.Errorf("the command line is shown as %s", shown)
	}
	fail.If(t, s.End())
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
