package order_test

import (
	"slices"
	"testing"
	"time"

	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Under grouped the store has the transaction. It is told by which revision of the voucher the order was decided, and
// until when it is to be paid.
func TestGroupedOrder(t *testing.T) {
	s := newFixture(t, func(p *voucher.Policy) { p.Stock = voucher.StockGrouped })
	s.vouchers.v.PayWithin, s.vouchers.v.PriceCents = time.Minute, 100
	s.vouchers.v.Revision, s.store.revision = 7, 7
	o, err := s.order(t)
	fail.NowIf(t, err)
	want := []string{"acquire", "group at revision 7", "begin", "decrement", "insert", "commit", "stop", "release"}
	if !slices.Equal(s.steps.all, want) {
		t.Errorf("steps\n got %q\nwant %q", s.steps.all, want)
	}
	fail.Unequal(t, o.PayBy, s.now.Add(time.Minute), "to be paid by")
	fail.Unequal(t, s.store.orders[1], o, "stored")
}
