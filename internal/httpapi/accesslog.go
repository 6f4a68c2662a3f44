package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"time"
)

// logAccess writes at most one log line per request, at a level that depends on the outcome:
//
//	error, warn  the service failed
//	info         the request changed something or was refused
//	debug        what happens ten thousand times a second in a rush: reads, ordinary refusals
//
// Lines of refusals, and of requests that their user may repeat for nothing, are bounded by a [httpserver.LineLimit].
// The next line with the same outcome says how many are missing.
func (a *API) logAccess(r *request, out reply, took time.Duration) {
	ctx, level := r.Context(), levelOf(r.Method, out)
	if !a.deps.Log.Enabled(ctx, level) {
		return
	}
	missing := 0
	if level == slog.LevelInfo && (out.problem != nil || r.user != 0) {
		if limit := a.problems.lines[out.outcome]; limit != nil {
			var ok bool
			if missing, ok = limit.Take(time.Now()); !ok {
				return
			}
		}
	}
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("method", clip(r.Method)), slog.String("path", clip(r.URL.Path)),
		slog.Int("status", out.status), slog.String("outcome", out.outcome),
		slog.Duration("took", took), slog.String("request_id", r.id))
	if r.user != 0 {
		attrs = append(attrs, slog.Int64("user", r.user))
	}
	if out.err != nil {
		attrs = append(attrs, slog.String("error", out.err.Error()))
	}
	if p, panicked := errors.AsType[*panicError](out.err); panicked {
		attrs = append(attrs, slog.String("stack", string(p.stack)))
	}
	if missing > 0 {
		attrs = append(attrs, slog.Int("suppressed", missing))
	}
	a.deps.Log.LogAttrs(ctx, level, "request", attrs...)
}

func levelOf(method string, out reply) slog.Level {
	switch {
	case out.problem != nil && out.problem.traits&routine != 0,
		out.problem == nil && method != http.MethodPost:
		return slog.LevelDebug
	case out.status == http.StatusInternalServerError:
		return slog.LevelError
	case out.status > http.StatusInternalServerError:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
