package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill/internal/httpserver"
)

// Check checks whether something that the service needs is available.
type Check struct {
	// Name is the name in /readyz, for example "database".
	Name string
	// Ask is not called again before it has returned. If that takes longer than its context, the check fails meanwhile.
	Ask func(ctx context.Context) error
}

// Flow is a way to sell vouchers.
type Flow struct {
	// Name is the name in /readyz, for example "admission".
	Name string
	// Needs are the names of the checks without which no order is accepted.
	Needs []string
}

// Readiness is what /readyz knows.
type Readiness struct {
	Checks []Check
	Flows  []Flow // without any, every check has to succeed
	Sold   Sold   // may be nil
}

// Sold reports how many vouchers can be bought now or later, by the name of the flow. It may name flows that this
// instance does not have.
type Sold func(ctx context.Context) (map[string]int, error)

// newDebug returns the handler for operators and monitoring.
func (a *API) newDebug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", a.health.serve)
	mux.Handle("GET /metrics", httpserver.Buffered(promhttp.HandlerFor(a.deps.Gatherer, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(a.deps.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	}), a.limits.scrapes))
	profiles := http.NewServeMux()
	profiles.HandleFunc("/debug/pprof/", pprof.Index)
	profiles.HandleFunc("/debug/pprof/cmdline", a.commandLine) // pprof.Cmdline would show secrets
	profiles.HandleFunc("/debug/pprof/profile", pprof.Profile)
	profiles.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	profiles.HandleFunc("/debug/pprof/trace", pprof.Trace)
	mux.Handle("/debug/pprof/", a.sameSite(a.checkRead, profiles))
	return mux
}

// commandLine answers as pprof.Cmdline does.
func (a *API) commandLine(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(strings.Join(a.cfg.CommandLine, "\x00")))
}

const (
	// checkTimeout bounds all checks together.
	checkTimeout = 2 * time.Second
	// checkGrace is what a check gets to return after that, with its error.
	checkGrace = 100 * time.Millisecond
	// checkEvery is how long a result is reused, so that a flood of /readyz does not reach the servers behind it.
	checkEvery = 500 * time.Millisecond
	// soldEvery is how long the answer of [Sold] is reused: it reads more than a check does.
	soldEvery = 2 * time.Second
	// scrapeWait is how long a scrape waits for the checks. After that it shows the result before, so
	// that the metrics can be read while a server hangs.
	scrapeWait = 200 * time.Millisecond
	// maxWaitForChecks bounds the requests that wait for the checks. Further ones get the result before: the load
	// balancer is answered in a flood too.
	maxWaitForChecks = 64
)

// health answers /readyz.
type health struct {
	Readiness
	log      *slog.Logger
	draining atomic.Bool
	scraping atomic.Bool                 // checks that a scrape has started are in progress
	latest   atomic.Pointer[checkResult] // last, without mu
	waiting  chan struct{}               // has one value for each request that waits for the checks

	asking []atomic.Bool // by check: its Ask has not returned

	mu     sync.Mutex // held while the checks run: concurrent requests wait for their result
	at     time.Time
	last   checkResult
	sold   map[string]int // the last answer; nil: none yet
	soldAt time.Time
}

func newHealth(of Readiness, log *slog.Logger) *health {
	return &health{Readiness: of, log: log, waiting: make(chan struct{}, maxWaitForChecks), asking: make([]atomic.Bool, len(of.Checks)+1)}
}

// checkResult is the result of all checks.
type checkResult struct {
	failing map[string]bool // by name of the check
	flows   map[string]flowJSON
	ready   bool
}

// readyJSON is the answer. It shows only the names of the checks that fail; the log has the reasons.
type readyJSON struct {
	Ready  bool                `json:"ready"`
	Checks map[string]string   `json:"checks"`          // "ok" or "failing"
	Flows  map[string]flowJSON `json:"flows,omitempty"` // for ?verbose=1
}

// flowJSON says whether orders are accepted by a flow.
type flowJSON struct {
	Ready bool `json:"ready"`
	// Vouchers is how many can be bought by it, now or later; null: not known.
	Vouchers *int     `json:"vouchers"`
	Failing  []string `json:"failing,omitempty"` // the checks that the flow needs and that fail
}

// serve answers two readers. The load balancer looks at the status: whether to send buyers here. An operator looks
// at the body; ?verbose=1 adds each flow, and ?strict=1 turns the status into whether everything works.
func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	result := h.result(r.Context())
	body := readyJSON{Ready: result.ready && !h.draining.Load(), Checks: make(map[string]string, len(h.Checks))}
	for _, c := range h.Checks {
		body.Checks[c.Name] = "ok"
		if result.failing[c.Name] {
			body.Checks[c.Name] = "failing"
		}
	}
	query := r.URL.Query()
	if query.Get("strict") == "1" && len(result.failing) > 0 {
		body.Ready = false
	}
	if query.Get("verbose") == "1" {
		body.Flows = result.flows
	}
	status := http.StatusOK
	if !body.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

// result is runChecks for a bounded number of requests at once. Others get the previous result, if there is one.
func (h *health) result(ctx context.Context) checkResult {
	select {
	case h.waiting <- struct{}{}:
		defer func() { <-h.waiting }()
	default:
		if latest := h.latest.Load(); latest != nil {
			return *latest
		}
	}
	return h.runChecks(ctx)
}

// runChecks runs all checks at once, unless their last result is recent.
func (h *health) runChecks(ctx context.Context) checkResult {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsZero() && time.Since(h.at) < checkEvery {
		return h.last
	}
	// Other requests use the result too, so it must not depend on this client.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	errs, sold := h.askAll(ctx)
	if sold != nil {
		h.sold, h.soldAt = sold, time.Now()
	}
	failing := make(map[string]bool)
	for i, c := range h.Checks {
		was := h.last.failing[c.Name]
		switch {
		case errs[i] != nil:
			if failing[c.Name] = true; !was {
				h.log.LogAttrs(ctx, slog.LevelWarn, "a check fails", slog.String("check", c.Name), slog.Any("error", errs[i]))
			}
		case was:
			h.log.LogAttrs(ctx, slog.LevelInfo, "a check succeeds again", slog.String("check", c.Name))
		}
	}
	h.last = h.judge(failing)
	h.at = time.Now()
	h.latest.Store(new(h.last))
	return h.last
}

// recent is runChecks with a short wait. It returns the previous result if the checks take longer, or if those of
// another scrape are still in progress. The result is nil until the first checks have finished.
func (h *health) recent(ctx context.Context) *checkResult {
	if !h.scraping.CompareAndSwap(false, true) {
		return h.latest.Load()
	}
	done := make(chan checkResult, 1)
	go func() { // ends after checkTimeout at the latest
		defer h.scraping.Store(false)
		done <- h.runChecks(ctx)
	}()
	select {
	case result := <-done:
		return &result
	case <-time.After(scrapeWait):
		return h.latest.Load()
	}
}

// errHangs is the error of a check that has not returned although its context has ended.
var errHangs = errors.New("it hangs")

// askAll runs all checks at once, and returns when all have returned, or a moment after the end of ctx: some may not end
// with it.
// sold is nil if it is not asked for or there is no answer: it comes from the database, and admission goes on without.
func (h *health) askAll(ctx context.Context) (errs []error, sold map[string]int) {
	type answer struct {
		check int
		err   error
		sold  map[string]int
	}
	answers := make(chan answer, len(h.asking)) // nobody may read the last ones
	waiting := 0
	ask := func(i int, of func() answer) {
		if !h.asking[i].CompareAndSwap(false, true) {
			return
		}
		waiting++
		go func() {
			a := of()
			h.asking[i].Store(false)
			a.check = i
			answers <- a
		}()
	}
	errs = make([]error, len(h.asking))
	for i, c := range h.Checks {
		errs[i] = errHangs
		ask(i, func() answer { return answer{err: c.Ask(ctx)} })
	}
	if h.Sold != nil && (h.soldAt.IsZero() || time.Since(h.soldAt) >= soldEvery) {
		ask(len(h.Checks), func() answer {
			sold, err := h.Sold(ctx)
			return answer{err: err, sold: sold}
		})
	}
	tooLate := time.NewTimer(checkTimeout + checkGrace)
	defer tooLate.Stop()
	for ; waiting > 0; waiting-- {
		select {
		case a := <-answers:
			if errs[a.check] = a.err; a.err == nil && a.sold != nil {
				sold = a.sold
			}
		case <-tooLate.C:
			return errs, sold
		}
	}
	return errs, sold
}

// judge decides whether buyers should be sent here: while a flow works by which a voucher is sold. If no voucher is
// sold, or that is not known, any flow counts. Without flows every check has to succeed.
func (h *health) judge(failing map[string]bool) checkResult {
	result := checkResult{failing: failing, flows: make(map[string]flowJSON, len(h.Flows)), ready: len(h.Flows) == 0 && len(failing) == 0}
	selling := false
	for _, vouchers := range h.sold {
		selling = selling || vouchers > 0
	}
	for _, f := range h.Flows {
		flow := flowJSON{Ready: true}
		for _, name := range f.Needs {
			if failing[name] {
				flow.Ready, flow.Failing = false, append(flow.Failing, name)
			}
		}
		if h.sold != nil {
			flow.Vouchers = new(h.sold[f.Name])
		}
		result.flows[f.Name] = flow
		result.ready = result.ready || flow.Ready && (!selling || h.sold[f.Name] > 0)
	}
	return result
}

// healthMetrics are the results of the checks. A scrape runs them, and does not wait for a server that hangs.
type healthMetrics struct {
	*health
	ready, checkOK, flowReady, flowVouchers *prometheus.Desc
}

func newHealthMetrics(h *health) *healthMetrics {
	return &healthMetrics{
		health:       h,
		ready:        prometheus.NewDesc("seckill_ready", "1 while /readyz tells the load balancer to send requests.", nil, nil),
		checkOK:      prometheus.NewDesc("seckill_check_ok", "1 while a check of /readyz succeeds.", []string{"check"}, nil),
		flowReady:    prometheus.NewDesc("seckill_flow_ready", "1 while everything works that orders by this flow need.", []string{"flow"}, nil),
		flowVouchers: prometheus.NewDesc("seckill_flow_vouchers", "Vouchers that can be bought by this flow, now or later.", []string{"flow"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *healthMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.checkOK, m.flowReady, m.flowVouchers} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *healthMetrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	oneIf := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	result := m.recent(context.Background())
	if result == nil {
		return
	}
	gauge(m.ready, oneIf(result.ready && !m.draining.Load()))
	for _, c := range m.Checks {
		gauge(m.checkOK, oneIf(!result.failing[c.Name]), c.Name)
	}
	for name, flow := range result.flows {
		gauge(m.flowReady, oneIf(flow.Ready), name)
		if flow.Vouchers != nil {
			gauge(m.flowVouchers, float64(*flow.Vouchers), name)
		}
	}
}
