package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// serveOn starts a server as the service does, on a free port. edit changes it first.
func serveOn(t *testing.T, h http.Handler, edit func(*http.Server)) (addr string) {
	t.Helper()
	srv := httpapi.NewServer(h, slog.New(slog.DiscardHandler))
	for name, d := range map[string]time.Duration{
		"ReadHeaderTimeout": srv.ReadHeaderTimeout, "ReadTimeout": srv.ReadTimeout,
		"IdleTimeout": srv.IdleTimeout,
	} {
		if d <= 0 {
			t.Errorf("%s is not set", name)
		}
	}
	if edit != nil {
		edit(srv)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(httpapi.Listen(l)) }()
	t.Cleanup(func() {
		_ = srv.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return l.Addr().String()
}

// exchange sends raw bytes and returns the status line of the answer.
func exchange(t *testing.T, addr, raw string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("no answer: %v", err)
	}
	return strings.TrimSpace(line)
}

// The read timeout does not apply to the work.
func TestReadTimeoutDoesNotCutTheWork(t *testing.T) {
	const readTimeout = 500 * time.Millisecond
	r := newFixture(t, lab)
	r.orders.place = func(ctx context.Context, req order.Request) (order.Order, error) {
		select {
		case <-ctx.Done():
			return order.Order{}, ctx.Err()
		case <-time.After(3 * readTimeout / 2):
			return order.Order{ID: 7, Status: order.Confirmed}, nil
		}
	}
	addr := serveOn(t, r.handler, func(s *http.Server) { s.ReadHeaderTimeout, s.ReadTimeout = readTimeout, readTimeout })
	for _, body := range []string{"Content-Length: 0\r\n\r\n", "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"} {
		if got := exchange(t, addr, "POST /api/v1/vouchers/1/orders HTTP/1.1\r\nHost: localhost\r\nX-User-ID: 42\r\n"+body); got != "HTTP/1.1 201 Created" {
			t.Errorf("%q: %s", body, got)
		}
	}
}

func TestServerLimits(t *testing.T) {
	r := newFixture(t, lab)
	addr := serveOn(t, r.handler, func(s *http.Server) {
		s.ReadHeaderTimeout, s.ReadTimeout = time.Second, time.Second
	})
	const create = "POST /api/v1/vouchers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct{ raw, want string }{
		"a header that never ends":   {"GET / HTTP/1.1\r\nHost: localhost\r\n", ""},
		"a body that never comes":    {create + "Content-Length: 10\r\n\r\n{", "HTTP/1.1 400 Bad Request"},
		"a body cut into bad chunks": {create + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400 Bad Request"},
		"a body without a length, too large": {
			create + "Transfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", 70_000, strings.Repeat(" ", 70_000)),
			"HTTP/1.1 413 Request Entity Too Large",
		},
		"a body that says it is too large": {create + "Content-Length: 9999999999\r\n\r\n", "HTTP/1.1 413 Request Entity Too Large"},
		"a header too large":               {"GET / HTTP/1.1\r\nHost: localhost\r\nX-Large: " + strings.Repeat("x", 64<<10) + "\r\n\r\n", "HTTP/1.1 431 Request Header Fields Too Large"},
		"not HTTP":                         {"HELO x\r\n\r\n", "HTTP/1.1 400 Bad Request"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := exchange(t, addr, c.raw); got != c.want {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}

// When the client hangs up, the context of the work ends.
func TestHangingUpStopsTheWork(t *testing.T) {
	r := newFixture(t, lab)
	begun, stopped := make(chan struct{}), make(chan error, 1)
	r.orders.place = func(ctx context.Context, _ order.Request) (order.Order, error) {
		close(begun)
		select {
		case <-ctx.Done():
			stopped <- nil
		case <-time.After(time.Minute):
			stopped <- errors.New("the work went on")
		}
		return order.Order{}, ctx.Err()
	}
	conn, err := net.Dial("tcp", serveOn(t, r.handler, nil))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, "POST /api/v1/vouchers/1/orders HTTP/1.1\r\nHost: localhost\r\nX-User-ID: 42\r\nContent-Length: 0\r\n\r\n")
	<-begun
	_ = conn.Close()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

func TestDebugRoutes(t *testing.T) {
	alone := newFixture(t, lab)
	apart := newFixture(t, lab, func(c *httpapi.Config, _ *fixture) { c.DebugListener = true })
	for _, c := range []struct {
		path                string
		alone, apart, debug int
	}{
		{path: "/livez", alone: 200, apart: 404, debug: 200},
		{path: "/readyz", alone: 200, apart: 404, debug: 200},
		{path: "/metrics", alone: 200, apart: 404, debug: 200},
		{path: "/debug/pprof/", alone: 404, apart: 404, debug: 200},
		{path: "/debug/pprof/cmdline", alone: 404, apart: 404, debug: 200},
	} {
		if got := get(alone.handler, c.path).Code; got != c.alone {
			t.Errorf("%s on the only listener: %d, want %d", c.path, got, c.alone)
		}
		if got := get(apart.handler, c.path).Code; got != c.apart {
			t.Errorf("%s on the public listener: %d, want %d", c.path, got, c.apart)
		}
		if got := get(apart.api.Debug(), c.path).Code; got != c.debug {
			t.Errorf("%s on the debug listener: %d, want %d", c.path, got, c.debug)
		}
	}
	if body := get(apart.api.Debug(), "/metrics").Body.String(); !strings.Contains(body, "seckill_orders_total") {
		t.Error("/metrics does not count orders")
	}
}

func TestReadiness(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	r := newFixture(t, func(_ *httpapi.Config, r *fixture) {
		r.checks = []httpapi.Check{
			{Name: "database", Ask: func(context.Context) error { asked.Add(1); return nil }},
			{Name: "redis", Ask: func(context.Context) error {
				if down.Load() {
					return errors.New("dial secret-host: refused")
				}
				return nil
			}},
		}
	})
	ready := func() (int, string) {
		rec := get(r.api.Debug(), "/readyz")
		var body struct{ Checks map[string]string }
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(rec.Body.String(), "secret-host") {
			t.Errorf("the answer shows the inside: %s", rec.Body)
		}
		return rec.Code, body.Checks["database"] + " " + body.Checks["redis"]
	}
	for range 10 {
		if code, checks := ready(); code != http.StatusOK || checks != "ok ok" {
			t.Fatalf("%d %s", code, checks)
		}
	}
	if n := asked.Load(); n > 5 {
		t.Errorf("ten looks asked the database %d times", n)
	}
	down.Store(true)
	testkit.Until(t, "a server that is down is noticed", func() bool {
		code, checks := ready()
		return code == http.StatusServiceUnavailable && checks == "ok failing"
	})
	if !strings.Contains(r.log.String(), "secret-host") {
		t.Error("the log does not say why")
	}
}

// The balancer's answer depends on the flows that are sold by; the operator's names every server.
func TestReadinessOfFlows(t *testing.T) {
	var failing, sold atomic.Value // a space-separated list of checks, and of flows
	down := errors.New("down")
	check := func(name string) httpapi.Check {
		return httpapi.Check{Name: name, Ask: func(context.Context) error {
			if slices.Contains(strings.Fields(failing.Load().(string)), name) {
				return down
			}
			return nil
		}}
	}
	for name, test := range map[string]struct {
		failing, sold string // sold "?": not known
		ready, strict bool
		flows         string
	}{
		"all well":                          {"", "a b", true, true, "a:true:1 b:true:1"},
		"what one flow needs":               {"x", "a b", true, false, "a:false:1[x] b:true:1"},
		"what the only sold flow needs":     {"x", "a", false, false, "a:false:1[x] b:true:0"},
		"what the flow that is idle needs":  {"x", "b", true, false, "a:false:0[x] b:true:1"},
		"nothing sold, a flow works":        {"x", "", true, false, "a:false:0[x] b:true:0"},
		"nothing sold, nothing works":       {"x y", "", false, false, "a:false:0[x] b:false:0[y]"},
		"not known, a flow works":           {"y", "?", true, false, "a:true:? b:false:?[y]"},
		"what no flow needs":                {"z", "a b", true, false, "a:true:1 b:true:1"},
		"what both need":                    {"both", "a b", false, false, "a:false:1[both] b:false:1[both]"},
		"a flow that this instance has not": {"", "other", false, true, "a:true:0 b:true:0"},
	} {
		t.Run(name, func(t *testing.T) {
			failing.Store(test.failing)
			sold.Store(test.sold)
			r := newFixture(t, func(_ *httpapi.Config, r *fixture) {
				r.checks = []httpapi.Check{check("x"), check("y"), check("z"), check("both")}
				r.flows = []httpapi.Flow{{Name: "a", Needs: []string{"x", "both"}}, {Name: "b", Needs: []string{"y", "both"}}}
				r.sold = func(context.Context) (map[string]int, error) {
					if test.sold == "?" {
						return nil, down
					}
					m := map[string]int{}
					for flow := range strings.FieldsSeq(sold.Load().(string)) {
						m[flow] = 1
					}
					return m, nil
				}
			})
			for path, ready := range map[string]bool{"/readyz": test.ready, "/readyz?strict=1": test.strict && test.ready, "/readyz?verbose=1": test.ready} {
				rec := r.do(t, call{"GET", path, "", nil})
				want := http.StatusServiceUnavailable
				if ready {
					want = http.StatusOK
				}
				var body struct {
					Ready bool
					Flows map[string]struct {
						Ready    bool
						Vouchers *int
						Failing  []string
					}
				}
				if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != want || body.Ready != ready {
					t.Errorf("%s: %d %s (%v)", path, rec.Code, rec.Body, err)
				}
				var flows []string
				for _, name := range slices.Sorted(maps.Keys(body.Flows)) {
					f, vouchers, why := body.Flows[name], "?", ""
					if f.Vouchers != nil {
						vouchers = strconv.Itoa(*f.Vouchers)
					}
					if len(f.Failing) > 0 {
						why = fmt.Sprint(f.Failing)
					}
					flows = append(flows, fmt.Sprintf("%s:%v:%s%s", name, f.Ready, vouchers, why))
				}
				if got := strings.Join(flows, " "); strings.Contains(path, "verbose") && got != test.flows || !strings.Contains(path, "verbose") && got != "" {
					t.Errorf("%s: flows %q, want %q for verbose=1", path, got, test.flows)
				}
			}
			metrics := get(r.api.Debug(), "/metrics").Body.String()
			for _, want := range []string{
				fmt.Sprintf("\nseckill_ready %d\n", map[bool]int{true: 1}[test.ready]),
				fmt.Sprintf("\nseckill_check_ok{check=\"x\"} %d\n", map[bool]int{false: 1}[strings.Contains(test.failing, "x")]),
				fmt.Sprintf("\nseckill_flow_ready{flow=\"a\"} %d\n", map[bool]int{true: 1}[strings.Contains(test.flows, "a:true")]),
			} {
				if !strings.Contains(metrics, want) {
					t.Errorf("the metrics lack %q", want)
				}
			}
			if known := strings.Contains(metrics, "\nseckill_flow_vouchers{"); known != (test.sold != "?") {
				t.Errorf("the number of vouchers is in the metrics: %v", known)
			}
		})
	}
}

func TestDrain(t *testing.T) {
	r := newFixture(t)
	if code := get(r.handler, "/readyz").Code; code != http.StatusOK {
		t.Fatalf("%d before", code)
	}
	r.api.Drain()
	if code := get(r.handler, "/readyz").Code; code != http.StatusServiceUnavailable {
		t.Errorf("%d while draining", code)
	}
	if code := get(r.handler, "/livez").Code; code != http.StatusOK {
		t.Errorf("not alive while draining: %d", code)
	}
}
