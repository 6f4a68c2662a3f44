package main

import (
	"bufio"
	"context"
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
	"time"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	// A test that needs several processes starts this binary again, as the service.
	if os.Getenv("SECKILL_TEST_AS_SERVICE") == "1" {
		main()
	}
	if text := os.Getenv(hostileEnv); text != "" {
		os.Exit(beHostile(text))
	}
	testkit.Main(m)
}

// inProcess is a service in this process.
type inProcess struct {
	banner, curl string
	pay          string // the lines that buy, pay and show, of an embedded service with its own sandbox
	stop         context.CancelFunc
	ended        chan error
	logs         *strings.Builder // to be read after the end
}

// start runs the service on a free port and waits for its banner.
func start(t *testing.T, args, environ []string) *inProcess {
	t.Helper()
	cfg, err := parseConfig(append([]string{"-addr", "127.0.0.1:0"}, args...), environ, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &inProcess{stop: stop, ended: make(chan error, 1), logs: &strings.Builder{}}
	out, in := io.Pipe()
	go func() {
		err := run(ctx, cfg, in, r.logs)
		r.ended <- err
		_ = in.CloseWithError(errors.Join(err, io.EOF))
	}()
	t.Cleanup(func() {
		stop()
		if err, first := <-r.ended; first && err != nil {
			t.Errorf("the service ended with %v\n%s", err, r.logs)
		}
	})
	lines := bufio.NewReader(out)
	if r.banner, err = lines.ReadString('\n'); err != nil {
		t.Fatalf("no banner: %v", err)
	}
	if cfg.Embedded {
		if r.curl, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("no curl line: %v", err)
		}
	}
	for range 5 {
		if !cfg.Embedded || cfg.Payment.URL != "" {
			break
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("no lines of the sandbox: %v", err)
		}
		if !strings.HasPrefix(line, "seckill: ") {
			r.pay += line
		}
	}
	return r
}

// end stops the service and returns its error.
func (r *inProcess) end() error {
	r.stop()
	err := <-r.ended
	close(r.ended)
	return err
}

var curlLine = regexp.MustCompile(`^curl -i -X POST -H '(\S+): (\S+)' (http://\S+)\n$`)

// buy runs the printed curl command.
func (r *inProcess) buy(t *testing.T) (status int, body string) {
	t.Helper()
	found := curlLine.FindStringSubmatch(r.curl)
	if found == nil {
		t.Fatalf("the curl line is %q", r.curl)
	}
	return call(t, http.MethodPost, found[3], http.Header{found[1]: {found[2]}}, "")
}

func call(t *testing.T, method, url string, header http.Header, body string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	transport := &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(got)
}

// TestEmbeddedService runs the service as in the first minute of the README: nothing but Go, one command, one
// curl command.
func TestEmbeddedService(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := start(t, nil, nil)
	if !strings.Contains(s.banner, "embedded") || !strings.Contains(s.banner, "lab mode") {
		t.Errorf("the banner is %q", s.banner)
	}
	if status, body := s.buy(t); status != http.StatusCreated || !strings.Contains(body, `"status":"confirmed"`) {
		t.Errorf("the first order: %d %s", status, body)
	}
	if status, body := s.buy(t); status != http.StatusConflict || !strings.Contains(body, `"already_ordered"`) {
		t.Errorf("the second order: %d %s", status, body)
	}
	audit := strings.TrimSuffix(curlLine.FindStringSubmatch(s.curl)[3], "/orders") + "/audit"
	if status, body := call(t, http.MethodGet, audit, nil, ""); status != http.StatusOK || !strings.Contains(body, `"balanced":true`) {
		t.Errorf("the audit: %d %s", status, body)
	}
	if err := s.end(); err != nil {
		t.Errorf("a stop on request is an error: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "seckill-*")); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
	if logs := noticed(s.logs.String()); logs != "" {
		t.Errorf("a normal run logged:\n%s", logs)
	}
}

// noticed removes from a log what a slow machine adds to it.
func noticed(logs string) string {
	var lines strings.Builder
	for line := range strings.Lines(logs) {
		slow := strings.Contains(line, `"msg":"slow statement"`) ||
			// of the Redis in the process. TestIdleReadIsNoFailure of internal/fulfil has what is not the machine's.
			strings.Contains(line, `"msg":"fulfil: a stream failed, retrying","error":"read accepted orders: read pipe: i/o timeout"`)
		if !slow {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

// The URL in the banner of a service that listens on all interfaces can be opened.
func TestBannerOfAllInterfaces(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0"} {
		s := start(t, []string{"-addr", addr, "-lab-allow-remote"}, nil)
		if !regexp.MustCompile(`^seckill: serving on http://localhost:\d+, .*on all interfaces, lab mode\n$`).MatchString(s.banner) {
			t.Errorf("%s: the banner is %q", addr, s.banner)
		}
		if status, body := s.buy(t); status != http.StatusCreated {
			t.Errorf("%s: %d %s", addr, status, body)
		}
	}
}

// A voucher under a lock whose servers are not configured is refused with the name of the setting.
func TestLockWithoutServersNamesTheSetting(t *testing.T) {
	t.Parallel()
	s := start(t, nil, nil)
	url := strings.Split(curlLine.FindStringSubmatch(s.curl)[3], "/vouchers/")[0] + "/vouchers"
	for lock, setting := range map[string]string{"zk-node": "SECKILL_ZOOKEEPER_ADDRS", "mysql-get-lock": "SECKILL_MYSQL_DSN"} {
		status, body := call(t, http.MethodPost, url, nil, `{"title":"t","stock":1,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":{"lock":"`+lock+`"}}`)
		if status != http.StatusBadRequest || !strings.Contains(body, "set "+setting) {
			t.Errorf("%s: %d %s", lock, status, body)
		}
	}
}

func TestRedisCounterMintsTheIDs(t *testing.T) {
	t.Parallel()
	s := start(t, []string{"-ids", "redis-counter"}, nil)
	if status, body := s.buy(t); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
}

func TestTwoServicesCannotShareAnAddress(t *testing.T) {
	t.Parallel()
	s := start(t, nil, nil)
	addr := regexp.MustCompile(`http://(\S+),`).FindStringSubmatch(s.banner)[1]
	cfg, err := parseConfig([]string{"-addr", addr}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "SECKILL_ADDR") {
		t.Errorf("err = %v, want one that names the setting", err)
	}
}

func TestHealthcheck(t *testing.T) {
	t.Parallel()
	debug := testkit.FreeAddr(t)
	s := start(t, []string{"-debug-addr", debug}, nil)
	check := func() error {
		return healthcheck(t.Context(), config{Addr: "127.0.0.1:1", DebugAddr: debug}, io.Discard, io.Discard)
	}
	if err := check(); err != nil {
		t.Errorf("a ready service is not healthy: %v", err)
	}
	// The debug listener's paths are not served by the API's listener.
	addr := regexp.MustCompile(`http://(\S+),`).FindStringSubmatch(s.banner)[1]
	for _, path := range []string{"/metrics", "/readyz", "/debug/pprof/"} {
		if status, _ := call(t, http.MethodGet, "http://"+addr+path, nil, ""); status != http.StatusNotFound {
			t.Errorf("%s is public: %d", path, status)
		}
		if status, _ := call(t, http.MethodGet, "http://"+debug+path, nil, ""); status != http.StatusOK {
			t.Errorf("%s on the debug listener: %d", path, status)
		}
	}
	if err := s.end(); err != nil {
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
	cmd := exec.CommandContext(t.Context(), selfPath(t), "healthcheck", "-debug-addr", "192.0.2.1:9100")
	cmd.Env = []string{"SECKILL_TEST_AS_SERVICE=1", "HTTP_PROXY=" + proxy.URL}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(out), "not ready") {
		t.Errorf("%v: %s", err, out)
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the proxy was asked %d times", n)
	}
}
