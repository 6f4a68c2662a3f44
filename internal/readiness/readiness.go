// Package readiness answers whether buyers should be sent to this instance, and which server fails, to a load balancer,
// an operator and Prometheus. The checks behind the answer are run at most twice a second, however many ask, and a
// server that hangs delays no answer for long.
package readiness

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// Config is what /readyz knows.
type Config struct {
	Checks []Check
	Flows  []Flow // without any, every check has to succeed
	Sold   Sold   // may be nil
}

// Sold reports how many vouchers can be bought now or later, by the name of the flow. It may name flows that this
// instance does not have.
type Sold func(ctx context.Context) (map[string]int, error)

const (
	// checkTimeout bounds all checks together.
	checkTimeout = 2 * time.Second
	// checkGrace is what a check gets to return after that, with its error.
	checkGrace = 100 * time.Millisecond
	// checkEvery is how long a result is reused, so that a flood of /readyz does not reach the servers behind it.
	checkEvery = 500 * time.Millisecond
	// soldEvery is how long the answer of [Sold] is reused: it reads more than a check does.
	soldEvery = 2 * time.Second
	// scrapeWait is how long a scrape waits for the checks. After that it shows the result before, so that the metrics
	// can be read while a server hangs.
	scrapeWait = 200 * time.Millisecond
	// maxWaitForChecks bounds the requests that wait for the checks. Further ones get the result before: the load
	// balancer is answered in a flood too.
	maxWaitForChecks = 64
)

// Readiness answers /readyz.
type Readiness struct {
	config   Config
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

// New returns the readiness of an instance. It runs no check before it is asked.
func New(c Config, log *slog.Logger) *Readiness {
	return &Readiness{config: c, log: log, waiting: make(chan struct{}, maxWaitForChecks), asking: make([]atomic.Bool, len(c.Checks)+1)}
}

// Drain makes the answer "not ready", so that a load balancer stops sending requests before the server stops accepting
// them.
func (r *Readiness) Drain() { r.draining.Store(true) }

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

// ServeHTTP answers two readers. The load balancer looks at the status: whether to send buyers here. An operator looks
// at the body; ?verbose=1 adds each flow, and ?strict=1 turns the status into whether everything works.
func (r *Readiness) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	result := r.result(req.Context())
	body := readyJSON{Ready: result.ready && !r.draining.Load(), Checks: make(map[string]string, len(r.config.Checks))}
	for _, c := range r.config.Checks {
		body.Checks[c.Name] = "ok"
		if result.failing[c.Name] {
			body.Checks[c.Name] = "failing"
		}
	}
	query := req.URL.Query()
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
func (r *Readiness) result(ctx context.Context) checkResult {
	select {
	case r.waiting <- struct{}{}:
		defer func() { <-r.waiting }()
	default:
		if latest := r.latest.Load(); latest != nil {
			return *latest
		}
	}
	return r.runChecks(ctx)
}

// runChecks runs all checks at once, unless their last result is recent.
func (r *Readiness) runChecks(ctx context.Context) checkResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() && time.Since(r.at) < checkEvery {
		return r.last
	}
	// Other requests use the result too, so it must not depend on this client.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	errs, sold := r.askAll(ctx)
	if sold != nil {
		r.sold, r.soldAt = sold, time.Now()
	}
	failing := make(map[string]bool)
	for i, c := range r.config.Checks {
		was := r.last.failing[c.Name]
		switch {
		case errs[i] != nil:
			if failing[c.Name] = true; !was {
				r.log.LogAttrs(ctx, slog.LevelWarn, "a check fails", slog.String("check", c.Name), slog.Any("error", errs[i]))
			}
		case was:
			r.log.LogAttrs(ctx, slog.LevelInfo, "a check succeeds again", slog.String("check", c.Name))
		}
	}
	r.last = r.judge(failing)
	r.at = time.Now()
	r.latest.Store(new(r.last))
	return r.last
}

// recent is runChecks with a short wait. It returns the previous result if the checks take longer, or if those of
// another scrape are still in progress. The result is nil until the first checks have finished.
func (r *Readiness) recent(ctx context.Context) *checkResult {
	if !r.scraping.CompareAndSwap(false, true) {
		return r.latest.Load()
	}
	done := make(chan checkResult, 1)
	go func() { // ends after checkTimeout at the latest
		defer r.scraping.Store(false)
		done <- r.runChecks(ctx)
	}()
	select {
	case result := <-done:
		return &result
	case <-time.After(scrapeWait):
		return r.latest.Load()
	}
}

// errHangs is the error of a check that has not returned although its context has ended.
var errHangs = errors.New("it hangs")

// askAll runs all checks at once, and returns when all have returned, or a moment after the end of ctx: some may not end
// with it.
// sold is nil if it is not asked for or there is no answer: it comes from the database, and admission goes on without.
func (r *Readiness) askAll(ctx context.Context) (errs []error, sold map[string]int) {
	type answer struct {
		check int
		err   error
		sold  map[string]int
	}
	answers := make(chan answer, len(r.asking)) // nobody may read the last ones
	waiting := 0
	ask := func(i int, of func() answer) {
		if !r.asking[i].CompareAndSwap(false, true) {
			return
		}
		waiting++
		go func() {
			a := of()
			r.asking[i].Store(false)
			a.check = i
			answers <- a
		}()
	}
	errs = make([]error, len(r.asking))
	for i, c := range r.config.Checks {
		errs[i] = errHangs
		ask(i, func() answer { return answer{err: c.Ask(ctx)} })
	}
	if r.config.Sold != nil && (r.soldAt.IsZero() || time.Since(r.soldAt) >= soldEvery) {
		ask(len(r.config.Checks), func() answer {
			sold, err := r.config.Sold(ctx)
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
func (r *Readiness) judge(failing map[string]bool) checkResult {
	result := checkResult{failing: failing, flows: make(map[string]flowJSON, len(r.config.Flows)), ready: len(r.config.Flows) == 0 && len(failing) == 0}
	selling := false
	for _, vouchers := range r.sold {
		selling = selling || vouchers > 0
	}
	for _, f := range r.config.Flows {
		flow := flowJSON{Ready: true}
		for _, name := range f.Needs {
			if failing[name] {
				flow.Ready, flow.Failing = false, append(flow.Failing, name)
			}
		}
		if r.sold != nil {
			flow.Vouchers = new(r.sold[f.Name])
		}
		result.flows[f.Name] = flow
		result.ready = result.ready || flow.Ready && (!selling || r.sold[f.Name] > 0)
	}
	return result
}

// metrics are the results of the checks. A scrape runs them, and does not wait for a server that hangs.
type metrics struct {
	of                                      *Readiness
	ready, checkOK, flowReady, flowVouchers *prometheus.Desc
}

// Metrics returns the metrics of the readiness.
func (r *Readiness) Metrics() prometheus.Collector {
	return &metrics{
		of:           r,
		ready:        prometheus.NewDesc("seckill_ready", "1 while /readyz tells the load balancer to send requests.", nil, nil),
		checkOK:      prometheus.NewDesc("seckill_check_ok", "1 while a check of /readyz succeeds.", []string{"check"}, nil),
		flowReady:    prometheus.NewDesc("seckill_flow_ready", "1 while everything works that orders by this flow need.", []string{"flow"}, nil),
		flowVouchers: prometheus.NewDesc("seckill_flow_vouchers", "Vouchers that can be bought by this flow, now or later.", []string{"flow"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.ready, m.checkOK, m.flowReady, m.flowVouchers} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	oneIf := func(yes bool) float64 {
		if yes {
			return 1
		}
		return 0
	}
	result := m.of.recent(context.Background())
	if result == nil {
		return
	}
	gauge(m.ready, oneIf(result.ready && !m.of.draining.Load()))
	for _, c := range m.of.config.Checks {
		gauge(m.checkOK, oneIf(!result.failing[c.Name]), c.Name)
	}
	for name, flow := range result.flows {
		gauge(m.flowReady, oneIf(flow.Ready), name)
		if flow.Vouchers != nil {
			gauge(m.flowVouchers, float64(*flow.Vouchers), name)
		}
	}
}
