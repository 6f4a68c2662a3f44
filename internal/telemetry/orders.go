package telemetry

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/admission"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Gate puts a span around each decision.
func (t *Tracing) Gate(g order.Gate) order.Gate {
	if t == nil {
		return g
	}
	return &gate{Gate: g, tracer: t.tracer}
}

type gate struct {
	order.Gate
	tracer trace.Tracer
}

// Admit implements [order.Gate].
func (g *gate) Admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	ctx, span := g.tracer.Start(ctx, "admission.decide", trace.WithAttributes(
		attribute.Int64("seckill.voucher_id", o.VoucherID), attribute.Int64("seckill.order_id", o.ID)))
	defer span.End()
	err := g.Gate.Admit(ctx, v, o)
	outcome, isAnswer := outcomeOf(err)
	span.SetAttributes(attribute.String("seckill.outcome", outcome))
	if !isAnswer {
		failed(span, err)
	}
	return err
}

// outcomeOf names what became of an order, and says whether that is an answer.
func outcomeOf(err error) (outcome string, isAnswer bool) {
	for _, o := range []struct {
		err     error
		outcome string
		answer  bool
	}{
		{nil, "accepted", true}, {voucher.ErrSoldOut, "sold_out", true}, {order.ErrAlreadyOrdered, "already_ordered", true},
		{voucher.ErrNotStarted, "sale_not_started", true}, {voucher.ErrEnded, "sale_ended", true},
		{order.ErrOverloaded, "overloaded", false}, {order.ErrUnavailable, "unavailable", false},
		{context.Canceled, "gave_up", false}, {context.DeadlineExceeded, "gave_up", false},
	} {
		if errors.Is(err, o.err) {
			return o.outcome, o.answer
		}
	}
	return "other", false
}

// Calls puts a span beside each call of Redis, and passes on what o observes.
func (t *Tracing) Calls(o admission.Observer) admission.Observer {
	if t == nil {
		return o
	}
	next := o.Batch
	o.Batch = func(orders int, took time.Duration, err error) {
		if next != nil {
			next(orders, took, err)
		}
		ended := time.Now()
		_, span := t.tracer.Start(context.Background(), "admission.call", trace.WithSpanKind(trace.SpanKindClient),
			trace.WithTimestamp(ended.Add(-took)),
			trace.WithAttributes(attribute.String("db.system.name", "redis"), attribute.Int("seckill.orders", orders)))
		if err != nil {
			failed(span, err)
		}
		span.End(trace.WithTimestamp(ended))
	}
	return o
}

// Shelf puts a span around each transaction that persists or rejects orders.
func (t *Tracing) Shelf(s order.Shelf) order.Shelf {
	if t == nil {
		return s
	}
	return &shelf{Shelf: s, tracer: t.tracer}
}

type shelf struct {
	order.Shelf
	tracer trace.Tracer
}

// Persist implements [order.Shelf].
func (s *shelf) Persist(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
	ctx, span := s.tracer.Start(ctx, "fulfil.persist", trace.WithSpanKind(trace.SpanKindConsumer))
	defer span.End()
	if span.IsRecording() {
		ids := make([]int64, len(batch))
		for i, a := range batch {
			ids[i] = a.OrderID
		}
		span.SetAttributes(attribute.Int("seckill.orders", len(batch)), attribute.Int64Slice("seckill.order_ids", ids))
	}
	states, err := s.Shelf.Persist(ctx, batch)
	if err != nil {
		failed(span, err)
	}
	return states, err
}

// Reject implements [order.Shelf].
func (s *shelf) Reject(ctx context.Context, a order.Accepted) (order.Status, error) {
	ctx, span := s.tracer.Start(ctx, "fulfil.reject", trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(attribute.Int64Slice("seckill.order_ids", []int64{a.OrderID})))
	defer span.End()
	state, err := s.Shelf.Reject(ctx, a)
	if err != nil {
		failed(span, err)
	}
	return state, err
}

func failed(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
