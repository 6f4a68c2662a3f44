package payment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
)

// books is what settlements call, and notes it.
type books struct {
	Store
	Observer
	steps   []string
	outcome order.Settlement
	settle  error // of Settle
	refund  error // of Refund
}

func (b *books) note(format string, args ...any) {
	b.steps = append(b.steps, fmt.Sprintf(format, args...))
}

func (b *books) Settle(_ context.Context, r order.Receipt) (order.Settlement, error) {
	b.note("settle %d of order %d", r.AmountCents, r.OrderID)
	return b.outcome, b.settle
}

func (b *books) MarkRefunded(_ context.Context, id string) error {
	b.note("refunded %s", id)
	return nil
}

func (b *books) Event(kind, result string) {
	b.note("%s is %s", strings.TrimPrefix(kind, "payment."), result)
}
func (b *books) Settled(outcome order.Outcome, _ int64) { b.note("%s", outcome) }

// lifecycle is the part of books whose name it shares with the observer's.
type lifecycle struct{ *books }

func (l lifecycle) Refund(_ context.Context, id int64) (order.Order, error) {
	l.note("refund order %d", id)
	return order.Order{}, l.refund
}

// What an event says is settled whatever its type; one that may not be forgotten is an error.
func TestReceive(t *testing.T) {
	paid := order.Settlement{Outcome: order.SettledPaid}
	for name, c := range map[string]struct {
		kind    string
		change  func(*Payment)
		outcome order.Settlement
		settle  error
		refund  error
		want    string // the steps
		err     error
	}{
		"paid":                     {EventPaid, nil, paid, nil, nil, "settle 8000 of order 42, paid, paid is ok", nil},
		"paid, repeated":           {EventPaid, nil, order.Settlement{Outcome: order.SettledPaid, Repeated: true}, nil, nil, "settle 8000 of order 42, paid is ok", nil},
		"refused":                  {EventRefused, func(p *Payment) { p.Status, p.PaidAt = StatusRefused, nil }, paid, nil, nil, "refused is ok", nil},
		"a part went back":         {EventRefunded, func(p *Payment) { p.RefundedCents = 7999 }, paid, nil, nil, "settle 8000 of order 42, paid, refunded is ok", nil},
		"all went back":            {EventRefunded, func(p *Payment) { p.RefundedCents = 8000 }, paid, nil, nil, "settle 8000 of order 42, paid, refund order 42, refunded pay_1, refunded is ok", nil},
		"all went back before":     {EventRefunded, func(p *Payment) { p.RefundedCents = 8000 }, paid, nil, order.ErrNotRefundable, "settle 8000 of order 42, paid, refund order 42, refunded pay_1, refunded is ok", nil},
		"all went back of nothing": {EventRefunded, func(p *Payment) { p.RefundedCents = 8000 }, order.Settlement{Outcome: order.RefundNoStock}, nil, nil, "settle 8000 of order 42, no_stock, refunded pay_1, refunded is ok", nil},
		"no refund for now":        {EventRefunded, func(p *Payment) { p.RefundedCents = 8000 }, paid, nil, order.ErrUnavailable, "settle 8000 of order 42, paid, refund order 42, refunded is unavailable", order.ErrUnavailable},
		"no database":              {EventPaid, nil, paid, order.ErrUnavailable, nil, "settle 8000 of order 42, paid is unavailable", order.ErrUnavailable},
		"paid, at a long address":  {EventPaid, func(p *Payment) { p.PayURL = "https://pay.test/" + strings.Repeat("x", maxURL) }, paid, nil, nil, "settle 8000 of order 42, paid, paid is ok", nil},
		"malformed":                {EventPaid, func(p *Payment) { p.RefundedCents = 8001 }, paid, nil, nil, "paid is malformed", ErrMalformed},
		"of another kind":          {"payment.odd", nil, paid, nil, nil, "other is ok", nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := &books{outcome: c.outcome, settle: c.settle, refund: c.refund}
			s, err := NewSettlements(SettlementsConfig{
				Webhooks: newWebhooks(t, exampleSecret), Provider: NewProvider(nil, "EUR"), Lifecycle: lifecycle{b}, Store: b, Observer: b, Log: slog.New(slog.DiscardHandler),
			})
			fail.NowIf(t, err)
			p := open()
			p.Status, p.PaidAt = StatusPaid, new(time.Unix(1e9, 0))
			if c.change != nil {
				c.change(&p)
			}
			body, err := json.Marshal(Event{Type: c.kind, Timestamp: time.Now(), Data: p})
			fail.NowIf(t, err)
			h := http.Header{}
			fail.NowIf(t, s.Webhooks.Sign(h, exampleID, time.Now(), body))
			if err := s.Receive(t.Context(), h, body); !errors.Is(err, c.err) || c.err == nil && err != nil {
				t.Errorf("Receive = %v, want %v", err, c.err)
			}
			fail.Unequal(t, strings.Join(b.steps, ", "), c.want, "steps")
			h.Set(HeaderSignature, wrongSignature)
			b.steps = nil
			if err := s.Receive(t.Context(), h, body); !errors.Is(err, ErrForged) || strings.Join(b.steps, ", ") != "other is forged" {
				t.Errorf("forged: %v, steps %v", err, b.steps)
			}
		})
	}
	if _, err := NewSettlements(SettlementsConfig{}); err == nil {
		t.Error("settlements without anything behind them were made")
	}
}
