// Package telemetry traces requests with OpenTelemetry if an endpoint is configured. Otherwise it wraps nothing and
// costs nothing.
//
// # Spans
//
//	POST /api/v1/vouchers/:id/orders   a request; continues the trace of its traceparent
//	└─ admission.decide                the gate's decision on its order
//	admission.call                     one call to Redis, for a whole batch of orders
//	└─ fulfil.entries                  the orders of the call that one transaction handles
//	fulfil.persist, fulfil.reject      one transaction of a fulfil worker
//
// A call and a transaction serve many requests, which belong to different traces or to none. So each starts a trace of
// its own, and links connect them in both directions:
//
//	from                  to
//	admission.decide      its admission.call
//	admission.call        its decisions, at most 128
//	fulfil.entries        the transaction; the parent is the call
//	fulfil.persist        the calls that accepted its orders, at most 128
//
// Between the processes, each entry of the stream carries the traceparent of its call. Attributes name the orders, too:
// seckill.order_id on a decision, seckill.order_ids on a transaction.
//
// A call is sampled if one of its decisions is, and a transaction if one of its calls is. So no chain breaks when only
// some traces are sampled.
//
// OpenTelemetry's own environment variables set the sampler (OTEL_TRACES_SAMPLER), the service's name
// (OTEL_SERVICE_NAME), headers, timeouts and batches.
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

// Tracing sends spans to a collector. A nil Tracing sends none and wraps nothing.
type Tracing struct {
	providers     []*sdk.TracerProvider
	tracer        trace.Tracer
	alwaysSampled trace.Tracer // samples every span, whatever sampler is configured
}

// TracesPath is the path, below the endpoint of all signals, at which a collector takes traces (OTLP/HTTP).
const TracesPath = "/v1/traces"

// scope is the instrumentation scope of the spans.
const scope = "seckill"

// Start returns a Tracing that sends spans to the collector at endpoint; nil if endpoint is "". It does not connect
// yet. While the collector is unreachable spans are lost; nothing else is affected.
func Start(ctx context.Context, endpoint string, log *slog.Logger) (*Tracing, error) {
	if endpoint == "" {
		return nil, nil
	}
	to, err := url.Parse(endpoint)
	if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, errors.New("telemetry: the endpoint is not an http:// or https:// URL")
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint))
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	// Later options win, so a configured service name replaces the default.
	attrs, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "seckill")),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("telemetry: %w", err), exporter.Shutdown(ctx))
	}
	processor := sdk.WithSpanProcessor(sdk.NewBatchSpanProcessor(&loggingExporter{SpanExporter: exporter, log: log}))
	configured := sdk.NewTracerProvider(processor, sdk.WithResource(attrs))
	alwaysSampled := sdk.NewTracerProvider(processor, sdk.WithResource(attrs), sdk.WithSampler(sdk.AlwaysSample()))
	return &Tracing{
		providers: []*sdk.TracerProvider{configured, alwaysSampled},
		tracer:    configured.Tracer(scope), alwaysSampled: alwaysSampled.Tracer(scope),
	}, nil
}

// Close sends the remaining spans until ctx ends. Failures are logged.
func (t *Tracing) Close(ctx context.Context) {
	if t == nil {
		return
	}
	for _, p := range t.providers {
		_ = p.Shutdown(ctx)
	}
}

// loggingExporter logs when the collector becomes unreachable and when it is back. The SDK would report errors to a
// handler that is global to the process.
type loggingExporter struct {
	sdk.SpanExporter
	log         *slog.Logger
	unreachable atomic.Bool
}

// ExportSpans implements [sdk.SpanExporter]. Spans that cannot be sent are dropped.
func (e *loggingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !e.unreachable.Swap(true):
		e.log.Warn("traces cannot be sent", "error", err)
	case err == nil && e.unreachable.Swap(false):
		e.log.Info("traces are sent again")
	}
	return nil
}
