// Package telemetry traces a request's way with OpenTelemetry, where an endpoint is
// configured, and is not there at all otherwise: what it would wrap stays as it is.
//
// # Spans
//
//	POST /api/v1/vouchers/:id/orders   a request; its traceparent is followed
//	└─ admission.decide                the gate's decision about its order
//	admission.call                     one call of Redis, for a whole batch of buyers
//	└─ fulfil.entries                  those of its orders that one transaction is about
//	fulfil.persist, fulfil.reject      one transaction of those who persist
//
// A call and a transaction serve many requests at once, which are children of many
// traces or of none, so each begins a trace of its own. Links lead from one to the next
// and back: from a decision to its call and from the call to its decisions (128 of them
// at most); from a call, by its fulfil.entries, to the transactions that its orders came
// to, and from a transaction to the calls. Between the processes the call's traceparent
// travels in the stream, in each entry. The order's id is on both ends besides:
// seckill.order_id on a decision, seckill.order_ids on a transaction.
//
// A call is kept where one of its decisions is, and a transaction where one of its calls
// is, so that no chain breaks where only some of the traces are kept.
//
// Which traces are kept (OTEL_TRACES_SAMPLER), the service's name (OTEL_SERVICE_NAME),
// headers, timeouts and batches are set with the variables of OpenTelemetry.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Tracing sends spans. A nil one sends none, and wraps nothing.
type Tracing struct {
	providers []*sdk.TracerProvider
	tracer    trace.Tracer
	keeping   trace.Tracer // keeps every span, whatever is configured
}

// tracesPath is where below its endpoint a collector takes traces (OTLP/HTTP).
const tracesPath = "/v1/traces"

// scope is who makes the spans.
const scope = "seckill"

// Start returns what sends spans to a collector, nil if the endpoint is "". It does not
// connect yet: a collector that is away costs spans, and nothing else.
func Start(ctx context.Context, endpoint string, log *slog.Logger) (*Tracing, error) {
	if endpoint == "" {
		return nil, nil
	}
	base, err := url.Parse(endpoint)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, errors.New("telemetry: the endpoint is no URL with http:// or https://")
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(base.JoinPath(tracesPath).String()))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	// The later ones win, so a name that is configured does.
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "seckill")),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), exporter.Shutdown(ctx))
	}
	sending := sdk.WithSpanProcessor(sdk.NewBatchSpanProcessor(&telling{SpanExporter: exporter, log: log}))
	configured := sdk.NewTracerProvider(sending, sdk.WithResource(about))
	keeping := sdk.NewTracerProvider(sending, sdk.WithResource(about), sdk.WithSampler(sdk.AlwaysSample()))
	return &Tracing{
		providers: []*sdk.TracerProvider{configured, keeping},
		tracer:    configured.Tracer(scope), keeping: keeping.Tracer(scope),
	}, nil
}

// Close sends what was not sent yet, until ctx ends. What fails then is in the log.
func (t *Tracing) Close(ctx context.Context) {
	if t == nil {
		return
	}
	for _, p := range t.providers {
		_ = p.Shutdown(ctx)
	}
}

// telling logs when the collector goes away and when it is back. The SDK would tell a
// handler that the whole process shares.
type telling struct {
	sdk.SpanExporter
	log  *slog.Logger
	away atomic.Bool
}

// ExportSpans implements [sdk.SpanExporter]. Spans that cannot be sent are dropped.
func (e *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.away.Swap(true):
		e.log.Warn("traces cannot be sent", "error", err)
	case err == nil && e.away.Swap(false):
		e.log.Info("traces are sent again")
	}
	return nil
}
