package telemetry

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Handler starts a span for each request to the API and continues the trace in the request's traceparent header. Health
// checks and metrics get no span.
func (t *Tracing) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	var traceContext propagation.TraceContext
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, api) {
			next.ServeHTTP(w, r)
			return
		}
		name, attrs := method(r.Method), []attribute.KeyValue{attribute.String("http.request.method", method(r.Method))}
		if route := Route(r.URL.Path); route != "" {
			name += " " + route
			attrs = append(attrs, attribute.String("http.route", route))
		}
		ctx := traceContext.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
		defer span.End()
		response := &responseWriter{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(response, r.WithContext(ctx))
		span.SetAttributes(
			attribute.Int("http.response.status_code", response.status),
			// The id of the request in the access log.
			attribute.String("seckill.request_id", w.Header().Get("X-Request-Id")))
		if response.status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
	})
}

const api = "/api/v1/"

// Route returns the route of a path, with parameters in place of ids. It is "" for a path that is not the API's, so
// that the set of span names stays finite.
func Route(path string) string {
	parts := strings.Split(strings.TrimPrefix(path, api), "/")
	if parts[0] == "locks" {
		return api + "locks/*key"
	}
	if len(parts) > 1 && parts[1] != "" && (parts[0] == "vouchers" || parts[0] == "orders") {
		parts[1] = ":id"
	}
	switch route := strings.Join(parts, "/"); route {
	case "vouchers", "vouchers/:id", "vouchers/:id/audit", "vouchers/:id/changes", "vouchers/:id/live", "vouchers/:id/orders", "vouchers/:id/room", "vouchers/:id/rush",
		"orders", "orders/:id", "orders/:id/cancel", "orders/:id/payment", "orders/:id/refund",
		"payments/events", "tokens":
		return api + route
	}
	return ""
}

// method returns m if it is a known HTTP method, else "_OTHER".
func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return m
	}
	return "_OTHER"
}

// responseWriter remembers the status of the response.
type responseWriter struct {
	http.ResponseWriter
	status      int
	wroteHeader bool
}

// WriteHeader implements [http.ResponseWriter]. Informational statuses (1xx) may precede the final one and are not
// remembered.
func (w *responseWriter) WriteHeader(status int) {
	if !w.wroteHeader && status >= http.StatusOK {
		w.status, w.wroteHeader = status, true
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *responseWriter) Write(body []byte) (int, error) {
	w.wroteHeader = true
	return w.ResponseWriter.Write(body)
}

// FlushError implements what [http.ResponseController] prefers to [http.Flusher]. A flush sends the header.
func (w *responseWriter) FlushError() error {
	w.wroteHeader = true
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements [http.Flusher]. gin's writer, which the API's streams flush, calls it on the writer that it wraps:
// it does not unwrap, and does nothing without it.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// Unwrap gives [http.ResponseController] access to the underlying writer.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
