package telemetry

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Handler puts a span around each request for the API, as part of the trace that the
// request says it belongs to. Health checks and metrics have none.
func (t *Tracing) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	var incoming propagation.TraceContext
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, api) {
			next.ServeHTTP(w, r)
			return
		}
		name, about := method(r.Method), []attribute.KeyValue{attribute.String("http.request.method", method(r.Method))}
		if route := routeOf(r.URL.Path); route != "" {
			name += " " + route
			about = append(about, attribute.String("http.route", route))
		}
		ctx := incoming.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(about...))
		defer span.End()
		answer := &answer{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(answer, r.WithContext(ctx))
		span.SetAttributes(
			attribute.Int("http.response.status_code", answer.status),
			// Under which the access log has it.
			attribute.String("seckill.request_id", w.Header().Get("X-Request-Id")))
		if answer.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

const api = "/api/v1/"

// routeOf is a path without what varies in it; "" for one that is none of ours, of
// which there is no end.
func routeOf(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, api), "/")
	switch parts[0] {
	case "locks":
		return api + "locks/*key"
	case "vouchers", "orders", "tokens":
	default:
		return ""
	}
	switch {
	case len(parts) == 1:
	case len(parts) == 2:
		parts[1] = ":id"
	case len(parts) == 3 && parts[0] == "vouchers" && (parts[2] == "orders" || parts[2] == "audit"):
		parts[1] = ":id"
	default:
		return ""
	}
	return api + strings.Join(parts, "/")
}

// method is the request's, where it is a known one.
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "_OTHER"
}

// answer remembers the status.
type answer struct {
	http.ResponseWriter
	status int
	told   bool
}

// WriteHeader implements [http.ResponseWriter]. Informational ones come before the one.
func (a *answer) WriteHeader(status int) {
	if !a.told && status >= http.StatusOK {
		a.status, a.told = status, true
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (a *answer) Write(body []byte) (int, error) {
	a.told = true
	return a.ResponseWriter.Write(body)
}

// Unwrap is for [http.ResponseController].
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
