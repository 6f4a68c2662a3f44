package admission

import (
	"context"
	"errors"
	"iter"
	"testing"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// buyer is the key of a context value.
type buyer struct{}

// tracer names each call, and keeps the orders and the result of each.
type tracer struct {
	name   string
	orders []any
	ended  []error
}

func (c *tracer) call(orders iter.Seq[context.Context]) (string, func(error)) {
	for ctx := range orders {
		c.orders = append(c.orders, ctx.Value(buyer{}))
	}
	return c.name, func(err error) { c.ended = append(c.ended, err) }
}

// The traceparent that an observer returns for a call is in the entries of the accepted orders. Without a traceparent,
// or without an observer, the entries have none.
func TestEntriesHaveTheTraceOfTheirCall(t *testing.T) {
	t.Parallel()
	const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s := newFixture(t, testkit.AnyRedis(t), 5)
	named, nameless := &tracer{name: traceparent}, &tracer{}
	gates := []*Gate{s.gate(nil)}
	for _, c := range []*tracer{named, nameless} {
		gates = append(gates, s.gate(func(config *Config) { config.Observer.Call = c.call }))
	}
	for i, g := range gates {
		user := int64(i + 1)
		ctx := context.WithValue(t.Context(), buyer{}, user)
		for _, want := range []error{nil, nil, order.ErrAlreadyOrdered} { // the second is a repetition
			o := order.Order{ID: 100 + user, UserID: user, VoucherID: s.store.voucher.ID}
			if want != nil {
				o.ID = 200
			}
			fail.NowUnless(t, g.Admit(ctx, &s.store.voucher, o), want, "user %d", user)
		}
	}
	entries, err := s.client.XRange(t.Context(), s.keys.Orders, "-", "+").Result()
	if err != nil || len(entries) != len(gates) {
		t.Fatalf("%v, %v", entries, err)
	}
	for i, want := range []any{nil, traceparent, nil} {
		fail.Unequal(t, entries[i].Values[ledger.EntryTrace], want, "entry %d names", i)
	}
	for user, c := range map[int64]*tracer{2: named, 3: nameless} {
		if len(c.orders) != 3 || c.orders[0] != user || len(c.ended) != 3 || errors.Join(c.ended...) != nil {
			t.Errorf("the tracer of user %d was told %+v", user, c)
		}
	}
}
