package telemetry

import (
	"context"
	"iter"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
)

// maxLinks is the largest number of links of a span: OpenTelemetry's default limit.
const maxLinks = 128

// startLinked starts a span in a new trace. With links, which lead to sampled spans only, it is always sampled;
// without, the configured sampler decides.
func (t *Tracing) startLinked(name string, links []trace.Link, opts ...trace.SpanStartOption) trace.Span {
	tracer := t.tracer
	if len(links) > 0 {
		tracer = t.alwaysSampled
	}
	_, span := tracer.Start(context.Background(), name, append(opts, trace.WithLinks(links...))...)
	return span
}

// Calls starts a span for each call to Redis that decides on orders, and links it with the spans of these decisions in
// both directions. The call passes its traceparent on.
func (t *Tracing) Calls(o admission.Observer) admission.Observer {
	if t == nil {
		return o
	}
	o.Call = func(orders iter.Seq[context.Context]) (traceparent string, ended func(error)) {
		var decisions []trace.Span
		var links []trace.Link
		count := 0
		for ctx := range orders {
			count++
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				decisions = append(decisions, span)
				if len(links) < maxLinks {
					links = append(links, trace.Link{SpanContext: span.SpanContext()})
				}
			}
		}
		call := t.startLinked("admission.call", links, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("db.system.name", "redis"), attribute.Int("seckill.orders", count)))
		for _, decision := range decisions {
			decision.AddLink(trace.Link{SpanContext: call.SpanContext()})
		}
		return formatTraceparent(call.SpanContext()), func(err error) {
			if err != nil {
				setError(call, err)
			}
			call.End()
		}
	}
	return o
}

// transaction is the span of a database transaction, linked to the calls that accepted its orders. entries are child
// spans of these calls, each with a link to the transaction.
type transaction struct {
	trace.Span
	entries []trace.Span
}

func (t *Tracing) startTransaction(name string, batch []contract.Accepted) transaction {
	calls := callsOf(batch)
	links := make([]trace.Link, len(calls))
	for i, c := range calls {
		links[i] = trace.Link{SpanContext: c.SpanContext}
	}
	span := t.startLinked(name, links, trace.WithSpanKind(trace.SpanKindConsumer))
	tx := transaction{Span: span, entries: make([]trace.Span, len(calls))}
	for i, c := range calls {
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), c.SpanContext)
		_, tx.entries[i] = t.alwaysSampled.Start(ctx, "fulfil.entries",
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(trace.Link{SpanContext: span.SpanContext()}),
			trace.WithAttributes(attribute.Int("seckill.orders", c.orders)))
	}
	return tx
}

// end ends the spans with the transaction's result. A transaction whose result is unknown is repeated with spans of its
// own.
func (t transaction) end(err error) {
	for _, span := range append(t.entries, t.Span) {
		if err != nil {
			setError(span, err)
		}
		span.End()
	}
}

// call is a call to Redis that accepted some orders of a batch.
type call struct {
	trace.SpanContext
	traceparent string
	orders      int // their number
}

// callsOf lists the calls that accepted the orders of a batch, in order of appearance. Orders without a traceparent are
// left out.
func callsOf(batch []contract.Accepted) []call {
	var calls []call
	for i := range batch {
		traceparent := batch[i].Trace
		if traceparent == "" {
			continue
		}
		if at := slices.IndexFunc(calls, func(c call) bool { return c.traceparent == traceparent }); at >= 0 {
			calls[at].orders++
		} else if len(calls) < maxLinks {
			if span := parseTraceparent(traceparent); span.IsValid() {
				calls = append(calls, call{SpanContext: span, traceparent: traceparent, orders: 1})
			}
		}
	}
	return calls
}

// traceparentKey is the key of the traceparent in a W3C Trace Context carrier.
const traceparentKey = "traceparent"

// formatTraceparent returns the traceparent of a span; "" if the span is not sampled, as a link to it would lead
// nowhere.
func formatTraceparent(span trace.SpanContext) string {
	if !span.IsSampled() {
		return ""
	}
	var w3c propagation.TraceContext
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
	return carrier[traceparentKey]
}

func parseTraceparent(traceparent string) trace.SpanContext {
	var w3c propagation.TraceContext
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier{traceparentKey: traceparent}))
}
