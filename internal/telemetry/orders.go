package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

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

// Shelf puts a span around each transaction that persists or rejects orders.
func (t *Tracing) Shelf(s order.Shelf) order.Shelf {
	if t == nil {
		return s
	}
	return &shelf{Shelf: s, tracing: t}
}

type shelf struct {
	order.Shelf
	tracing *Tracing
}

// Persist implements [order.Shelf].
func (s *shelf) Persist(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
	t := s.tracing.transaction("fulfil.persist", batch)
	if t.IsRecording() {
		ids := make([]int64, len(batch))
		for i, a := range batch {
			ids[i] = a.OrderID
		}
		t.SetAttributes(attribute.Int("seckill.orders", len(batch)), attribute.Int64Slice("seckill.order_ids", ids))
	}
	states, err := s.Shelf.Persist(trace.ContextWithSpan(ctx, t.Span), batch)
	t.end(err)
	return states, err
}

// Reject implements [order.Shelf].
func (s *shelf) Reject(ctx context.Context, a order.Accepted) (order.Status, error) {
	t := s.tracing.transaction("fulfil.reject", []order.Accepted{a})
	t.SetAttributes(attribute.Int64Slice("seckill.order_ids", []int64{a.OrderID}))
	state, err := s.Shelf.Reject(trace.ContextWithSpan(ctx, t.Span), a)
	t.end(err)
	return state, err
}

func failed(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
