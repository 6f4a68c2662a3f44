package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check asks one thing that the service needs whether it answers.
type Check struct {
	// Name is shown by /readyz: "database", say.
	Name string
	Ask  func(ctx context.Context) error
}

// newDebug is what operators and their machines ask.
func (a *API) newDebug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", a.health.serve)
	mux.Handle("GET /metrics", promhttp.HandlerFor(a.deps.Gatherer, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(a.deps.Log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		MaxRequestsInFlight: 4,
	}))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

const (
	// checkTimeout bounds a round of checks.
	checkTimeout = 2 * time.Second
	// checkEvery is how long a round's result is good for: whoever floods /readyz
	// floods nothing behind it.
	checkEvery = 500 * time.Millisecond
)

// health answers /readyz.
type health struct {
	checks   []Check
	log      *slog.Logger
	draining atomic.Bool

	mu   sync.Mutex // held during a round: who comes meanwhile shares its result
	at   time.Time
	last readyJSON
}

// readyJSON says what is wrong by name only. Why is in the log.
type readyJSON struct {
	Ready  bool              `json:"ready"`
	Checks map[string]string `json:"checks"` // "ok" or "failing"
}

func newHealth(checks []Check, log *slog.Logger) *health { return &health{checks: checks, log: log} }

func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	result := h.round(r.Context())
	status := http.StatusOK
	if h.draining.Load() {
		result.Ready = false
	}
	if !result.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(result) // the client may be gone
}

// round asks everything at once, unless that was done just now.
func (h *health) round(ctx context.Context) readyJSON {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsZero() && time.Since(h.at) < checkEvery {
		return h.last
	}
	// The result is for others too: it must not depend on who hangs up.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
	defer cancel()
	errs := make([]error, len(h.checks))
	var wg sync.WaitGroup
	for i, c := range h.checks {
		wg.Go(func() { errs[i] = c.Ask(ctx) })
	}
	wg.Wait()

	h.last = readyJSON{Ready: true, Checks: make(map[string]string, len(h.checks))}
	for i, c := range h.checks {
		h.last.Checks[c.Name] = "ok"
		if errs[i] != nil {
			h.last.Ready, h.last.Checks[c.Name] = false, "failing"
			h.log.LogAttrs(ctx, slog.LevelWarn, "not ready", slog.String("check", c.Name), slog.Any("error", errs[i]))
		}
	}
	h.at = time.Now()
	return h.last
}
