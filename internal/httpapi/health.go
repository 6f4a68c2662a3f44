package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Check checks whether something that the service needs is available.
type Check struct {
	// Name is the name in /readyz, for example "database".
	Name string
	Ask  func(ctx context.Context) error
	// Advisory says that the service is useful without it. If it fails, /readyz shows that and still
	// answers ready, except to /readyz?strict=1.
	Advisory bool
}

// newDebug returns the handler for operators and monitoring.
func (a *API) newDebug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.HandleFunc("GET /readyz", a.health.serve)
	mux.Handle("GET /metrics", buffered(promhttp.HandlerFor(a.deps.Gatherer, promhttp.HandlerOpts{
		ErrorLog:      slog.NewLogLogger(a.deps.Log.Handler(), slog.LevelWarn),
		ErrorHandling: promhttp.ContinueOnError,
	})))
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", a.commandLine) // pprof.Cmdline would show secrets
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
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
	// checkEvery is how long a result is reused, so that a flood of /readyz does not reach the servers
	// behind it.
	checkEvery = 500 * time.Millisecond
)

// health answers /readyz.
type health struct {
	checks   []Check
	log      *slog.Logger
	draining atomic.Bool

	mu   sync.Mutex // held while the checks run: concurrent requests wait for their result
	at   time.Time
	last readyJSON
}

// readyJSON shows only the names of the checks that fail. The log has the reasons.
type readyJSON struct {
	Ready  bool              `json:"ready"`
	Checks map[string]string `json:"checks"` // "ok" or "failing"

	impaired bool // an advisory check fails
}

func newHealth(checks []Check, log *slog.Logger) *health { return &health{checks: checks, log: log} }

func (h *health) serve(w http.ResponseWriter, r *http.Request) {
	result := h.runChecks(r.Context())
	status := http.StatusOK
	if h.draining.Load() || result.impaired && r.URL.Query().Get("strict") == "1" {
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

// runChecks runs all checks at once, unless their last result is recent.
func (h *health) runChecks(ctx context.Context) readyJSON {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.at.IsZero() && time.Since(h.at) < checkEvery {
		return h.last
	}
	// Other requests use the result too, so it must not depend on this client.
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
		if errs[i] == nil {
			continue
		}
		h.last.Checks[c.Name] = "failing"
		what := "not ready"
		if c.Advisory {
			h.last.impaired, what = true, "ready, with less than everything"
		} else {
			h.last.Ready = false
		}
		h.log.LogAttrs(ctx, slog.LevelWarn, what, slog.String("check", c.Name), slog.Any("error", errs[i]))
	}
	h.at = time.Now()
	return h.last
}
