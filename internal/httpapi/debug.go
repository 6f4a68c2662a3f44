package httpapi

import (
	"log/slog"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"seckill/internal/httpserver"
)

// newDebug returns the handler for operators and monitoring.
func (a *API) newDebug() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	})
	mux.Handle("GET /readyz", a.deps.Ready)
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
