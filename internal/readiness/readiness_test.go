package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// logged returns a readiness and what it logs.
func logged(c Config) (*Readiness, *strings.Builder) {
	log := &strings.Builder{}
	return New(c, slog.New(slog.NewJSONHandler(log, nil))), log
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

// A result of the checks serves for half a second. The answer and the log say which check fails, the log alone why.
func TestReadiness(t *testing.T) {
	synctest.Test(t, testReadiness)
}

func testReadiness(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	r, log := logged(Config{Checks: []Check{
		{Name: "database", Ask: func(context.Context) error { asked.Add(1); return nil }},
		{Name: "redis", Ask: func(context.Context) error {
			if down.Load() {
				return errors.New("dial secret-host: refused")
			}
			return nil
		}},
	}})
	want := func(code int, checks string) {
		t.Helper()
		rec := get(r, "/readyz")
		var body struct{ Checks map[string]string }
		fail.NowIf(t, json.Unmarshal(rec.Body.Bytes(), &body))
		if got := body.Checks["database"] + " " + body.Checks["redis"]; rec.Code != code || got != checks || strings.Contains(rec.Body.String(), "secret-host") {
			t.Errorf("%d %s, want %d and %s", rec.Code, rec.Body, code, checks)
		}
	}
	for range 10 {
		want(http.StatusOK, "ok ok")
	}
	down.Store(true)
	simulate.Sleep(checkEvery - 1)
	want(http.StatusOK, "ok ok")
	fail.Unequal(t, asked.Load(), 1, "times that the database was asked")
	simulate.Sleep(1)
	want(http.StatusServiceUnavailable, "ok failing")
	simulate.Sleep(checkEvery)
	want(http.StatusServiceUnavailable, "ok failing")
	if n := strings.Count(log.String(), "secret-host"); n != 1 {
		t.Errorf("the log says %d times why, want once", n)
	}
	down.Store(false)
	simulate.Sleep(checkEvery)
	want(http.StatusOK, "ok ok")
	r.Drain()
	want(http.StatusServiceUnavailable, "ok ok")
}

// A check hangs, whatever its context says: the answer comes in time and names it, the log says so once, and it is not
// asked again meanwhile.
func TestReadinessWhileACheckHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		r, log := logged(Config{Checks: []Check{
			{Name: "database", Ask: func(context.Context) error {
				if asked.Add(1) == 1 {
					simulate.Sleep(time.Minute)
				}
				return nil
			}},
			{Name: "redis", Ask: func(ctx context.Context) error { <-ctx.Done(); return errors.New("it obeys") }},
		}})
		began := time.Now()
		for range 10 {
			asking := time.Now()
			rec := get(r, "/readyz")
			if took := time.Since(asking); rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), `"database":"failing"`) || took > checkTimeout+200*time.Millisecond {
				t.Errorf("%d %s after %v", rec.Code, rec.Body, took)
			}
			simulate.Sleep(checkEvery)
		}
		said := log.String()
		if n := asked.Load(); n != 1 || strings.Count(said, "it hangs") != 1 || strings.Count(said, "it obeys") != 1 {
			t.Errorf("asked %d times; log:\n%s", n, said)
		}
		simulate.Sleep(time.Minute + time.Second - time.Since(began))
		if rec := get(r, "/readyz"); !strings.Contains(rec.Body.String(), `"database":"ok"`) {
			t.Errorf("when it is over: %s", rec.Body)
		}
	})
}

// The balancer's answer depends on the flows that are sold by; the operator's names every server.
func TestReadinessOfFlows(t *testing.T) {
	var failing, sold atomic.Value // a space-separated list of checks, and of flows
	down := errors.New("down")
	check := func(name string) Check {
		return Check{Name: name, Ask: func(context.Context) error {
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
			r, _ := logged(Config{
				Checks: []Check{check("x"), check("y"), check("z"), check("both")},
				Flows:  []Flow{{Name: "a", Needs: []string{"x", "both"}}, {Name: "b", Needs: []string{"y", "both"}}},
				Sold: func(context.Context) (map[string]int, error) {
					if test.sold == "?" {
						return nil, down
					}
					m := map[string]int{}
					for flow := range strings.FieldsSeq(sold.Load().(string)) {
						m[flow] = 1
					}
					return m, nil
				},
			})
			for path, ready := range map[string]bool{"/readyz": test.ready, "/readyz?strict=1": test.strict && test.ready, "/readyz?verbose=1": test.ready} {
				rec := get(r, path)
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
			registry := prometheus.NewRegistry()
			fail.NowIf(t, registry.Register(r.Metrics()))
			metrics := get(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), "/metrics").Body.String()
			for _, want := range []string{
				fmt.Sprintf("\nseckill_ready %d\n", map[bool]int{true: 1}[test.ready]),
				fmt.Sprintf("\nseckill_check_ok{check=\"x\"} %d\n", map[bool]int{false: 1}[strings.Contains(test.failing, "x")]),
				fmt.Sprintf("\nseckill_flow_ready{flow=\"a\"} %d\n", map[bool]int{true: 1}[strings.Contains(test.flows, "a:true")]),
			} {
				if !strings.Contains(metrics, want) {
					t.Errorf("the metrics lack %q", want)
				}
			}
			fail.Unequal(t, strings.Contains(metrics, "\nseckill_flow_vouchers{"), (test.sold != "?"), "the number of vouchers is in the metrics")
		})
	}
}

// While a check hangs and more requests wait for it than may, the balancer is told the previous result at once.
func TestReadinessInAFlood(t *testing.T) {
	hangs := make(chan struct{})
	var asked atomic.Int64
	r, _ := logged(Config{Checks: []Check{{Name: "database", Ask: func(context.Context) error {
		if asked.Add(1) == 1 {
			return nil
		}
		<-hangs
		return errors.New("it hung")
	}}}})
	ready := func() int { return get(r, "/readyz").Code }
	if code := ready(); code != http.StatusOK {
		t.Fatal(code)
	}
	r.at = r.at.Add(-checkEvery) // from here on the result is not recent
	codes := make(chan int)
	for range maxWaitForChecks + 1 {
		go func() { codes <- ready() }()
	}
	select {
	case code := <-codes: // nobody else can be answered
		fail.Unequal(t, code, http.StatusOK, "beyond the limit, where the previous result is due")
	case <-time.After(time.Minute):
		close(hangs)
		t.Fatal("all requests wait for the check")
	}
	close(hangs)
	for range maxWaitForChecks {
		fail.Unequal(t, <-codes, http.StatusServiceUnavailable, "a request that waited was told")
	}
}
