package telemetry

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Gate starts a span for each decision on an order.
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
	outcome, decided := outcomeOf(err)
	span.SetAttributes(attribute.String("seckill.outcome", outcome))
	if !decided {
		setError(span, err)
	}
	return err
}

// outcomeOf names the outcome of an order. decided is false if the gate could not decide.
func outcomeOf(err error) (outcome string, decided bool) {
	if _, repeated := errors.AsType[*order.RepeatedError](err); repeated {
		return "repeated", true
	}
	for _, o := range []struct {
		err     error
		outcome string
		decided bool
	}{
		{nil, "accepted", true}, {voucher.ErrSoldOut, "sold_out", true}, {order.ErrAlreadyOrdered, "already_ordered", true},
		{voucher.ErrNotStarted, "sale_not_started", true}, {voucher.ErrEnded, "sale_ended", true}, {voucher.ErrPaused, "sale_paused", true},
		{order.ErrOverloaded, "overloaded", false}, {order.ErrUnavailable, "unavailable", false},
		{context.Canceled, "gave_up", false}, {context.DeadlineExceeded, "gave_up", false},
	} {
		if errors.Is(err, o.err) {
			return o.outcome, o.decided
		}
	}
	return "other", false
}

// AdmissionStore starts a span for each transaction that persists or rejects orders.
func (t *Tracing) AdmissionStore(s contract.AdmissionStore) contract.AdmissionStore {
	if t == nil {
		return s
	}
	return &admissionStore{AdmissionStore: s, tracing: t}
}

type admissionStore struct {
	contract.AdmissionStore
	tracing *Tracing
}

// Persist implements [contract.AdmissionStore].
func (s *admissionStore) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	tx := s.tracing.startTransaction("fulfil.persist", batch)
	if tx.IsRecording() {
		ids := make([]int64, len(batch))
		for i, a := range batch {
			ids[i] = a.OrderID
		}
		tx.SetAttributes(attribute.Int("seckill.orders", len(batch)), attribute.Int64Slice("seckill.order_ids", ids))
	}
	statuses, err := s.AdmissionStore.Persist(trace.ContextWithSpan(ctx, tx.Span), batch)
	tx.end(err)
	return statuses, err
}

// Reject implements [contract.AdmissionStore].
func (s *admissionStore) Reject(ctx context.Context, a contract.Accepted) (order.Status, error) {
	tx := s.tracing.startTransaction("fulfil.reject", []contract.Accepted{a})
	tx.SetAttributes(attribute.Int64Slice("seckill.order_ids", []int64{a.OrderID}))
	status, err := s.AdmissionStore.Reject(trace.ContextWithSpan(ctx, tx.Span), a)
	tx.end(err)
	return status, err
}

func setError(span trace.Span, err error) {
	span.RecordError(err)
	span.SetStatus(codes.Error, err.Error())
}
