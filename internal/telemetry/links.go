package telemetry

import (
	"context"
	"iter"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/admission"
	"seckill/internal/order"
)

// maxLinks is how many others a span is linked with, as many as OpenTelemetry keeps.
const maxLinks = 128

// startLinked begins a trace of its own, which is kept where one is that it serves.
func (t *Tracing) startLinked(name string, links []trace.Link, opts ...trace.SpanStartOption) trace.Span {
	tracer := t.tracer
	if len(links) > 0 {
		tracer = t.keeping
	}
	_, span := tracer.Start(context.Background(), name, append(opts, trace.WithLinks(links...))...)
	return span
}

// Calls puts a span around each call of Redis that decides about orders, and links it
// with their decisions, both ways. The call takes its traceparent with it.
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
		return written(call.SpanContext()), func(err error) {
			if err != nil {
				failed(call, err)
			}
			call.End()
		}
	}
	return o
}

// transaction is a span, and one in the trace of each call whose orders it is about: from
// the one the calls are found, from the others the transaction.
type transaction struct {
	trace.Span
	entries []trace.Span
}

func (t *Tracing) transaction(name string, batch []order.Accepted) transaction {
	calls := callsOf(batch)
	links := make([]trace.Link, len(calls))
	for i, c := range calls {
		links[i] = trace.Link{SpanContext: c.SpanContext}
	}
	span := t.startLinked(name, links, trace.WithSpanKind(trace.SpanKindConsumer))
	all := transaction{Span: span, entries: make([]trace.Span, len(calls))}
	for i, c := range calls {
		_, all.entries[i] = t.keeping.Start(trace.ContextWithRemoteSpanContext(context.Background(), c.SpanContext), "fulfil.entries",
			trace.WithSpanKind(trace.SpanKindConsumer), trace.WithLinks(trace.Link{SpanContext: span.SpanContext()}),
			trace.WithAttributes(attribute.Int("seckill.orders", c.orders)))
	}
	return all
}

// end says what became of the transaction. A commit without an answer is made again, with
// spans of its own.
func (t transaction) end(err error) {
	for _, span := range append(t.entries, t.Span) {
		if err != nil {
			failed(span, err)
		}
		span.End()
	}
}

// call is one that accepted so many orders of a batch.
type call struct {
	trace.SpanContext
	traceparent string
	orders      int
}

// callsOf lists those that are known, in the order in which they appear.
func callsOf(batch []order.Accepted) []call {
	var calls []call
	for i := range batch {
		traceparent := batch[i].Trace
		if traceparent == "" {
			continue
		}
		if at := slices.IndexFunc(calls, func(c call) bool { return c.traceparent == traceparent }); at >= 0 {
			calls[at].orders++
		} else if len(calls) < maxLinks {
			if span := read(traceparent); span.IsValid() {
				calls = append(calls, call{SpanContext: span, traceparent: traceparent, orders: 1})
			}
		}
	}
	return calls
}

// field is what W3C's Trace Context calls the form in which spans are handed on.
const field = "traceparent"

// written is "" where the span is not kept: nobody would find anything.
func written(span trace.SpanContext) string {
	if !span.IsSampled() {
		return ""
	}
	var w3c propagation.TraceContext
	carrier := propagation.MapCarrier{}
	w3c.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
	return carrier[field]
}

func read(traceparent string) trace.SpanContext {
	var w3c propagation.TraceContext
	return trace.SpanContextFromContext(w3c.Extract(context.Background(), propagation.MapCarrier{field: traceparent}))
}
