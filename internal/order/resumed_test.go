package order_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestResumedOrderFindsTheEarlierOne(t *testing.T) {
	s := newFixture(t, nil)
	req := order.Request{VoucherID: 7, UserID: 42, ID: 99}
	first, err := s.Place(t.Context(), req)
	if err != nil || first.ID != 99 {
		t.Fatalf("Place = %+v, %v", first, err)
	}
	// Without Resumed, the row that is in the way is this order. Another order of the user is refused.
	if o, err := s.Place(t.Context(), req); err != nil || o != first || s.store.stock != 9 {
		t.Errorf("again: %+v, %v, stock %d, want %+v", o, err, s.store.stock, first)
	}
	fail.Unless(t, fail.Of(s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 98})), order.ErrAlreadyOrdered)
	// With Resumed it returns the first order, even after the sale.
	s.now = begin.Add(2 * time.Hour)
	req.Resumed = true
	if o, err := s.Place(t.Context(), req); err != nil || o != first {
		t.Errorf("resumed: %+v, %v, want %+v", o, err, first)
	}
	s.now = begin
	// With Resumed and no earlier order, it places one.
	if o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 43, ID: 100, Resumed: true}); err != nil || o.ID != 100 {
		t.Errorf("resumed: %+v, %v", o, err)
	}
}

// An order that has the request's id and does not match the request is not shown.
func TestResumedOrderWhoseIDBelongsToAnother(t *testing.T) {
	for name, there := range map[string]order.Order{
		"user":    {ID: 99, VoucherID: 7, UserID: 43, Status: order.Confirmed},
		"voucher": {ID: 99, VoucherID: 8, UserID: 42, Status: order.Confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, nil)
			s.store.orders[99] = there
			o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
			if !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, order.ErrIDTaken) || o != (order.Order{}) {
				t.Errorf("Place = %+v, %v; want ErrUnavailable and ErrIDTaken", o, err)
			}
			if s.store.stock != 10 || len(s.store.orders) != 1 {
				t.Errorf("stock %d, orders %v", s.store.stock, s.store.orders)
			}
			s = newFixture(t, nil)
			s.vouchers.before = func() { s.store.orders[99] = there; s.vouchers.v.Stock = 0 }
			o, err = s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
			if !errors.Is(err, voucher.ErrSoldOut) || o != (order.Order{}) {
				t.Errorf("since the query for it: Place = %+v, %v; want ErrSoldOut", o, err)
			}
		})
	}
}

// The earlier attempt commits after the query for its order: before the voucher is loaded, which then cannot be bought
// any more, or before the writes of the attempt that resumes it.
func TestResumedOrderMeetsTheEarlierAttempt(t *testing.T) {
	soldOut := func(s *fixture) { s.store.stock = 0 }
	known := func(s *fixture) { s.vouchers.v.Stock = 0 }
	over := func(s *fixture) { s.now = begin.Add(time.Hour) }
	for name, tc := range map[string]struct {
		meanwhile func(*fixture) // beside the commit of the earlier attempt
		writing   bool           // it is before the writes
		want      error          // without an earlier attempt
	}{
		"it bought the last unit":                  {known, false, voucher.ErrSoldOut},
		"it committed at the sale's end":           {over, false, voucher.ErrEnded},
		"it bought the last unit before the write": {soldOut, true, voucher.ErrSoldOut},
		"it committed before the write":            {func(*fixture) {}, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, nil)
			earlier := order.Order{ID: 99, VoucherID: 7, UserID: 42, Status: order.Confirmed}
			at := &s.vouchers.before
			if tc.writing {
				at = &s.store.before
			}
			*at = func() { s.store.orders[99] = earlier; tc.meanwhile(s) }
			o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
			if err != nil || o != earlier || len(s.store.orders) != 1 {
				t.Errorf("Place = %+v, %v, stored %v; want the earlier attempt's order", o, err, s.store.orders)
			}
			if _, err = s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 43, ID: 100, Resumed: true}); !errors.Is(err, tc.want) {
				t.Errorf("without an earlier order: %v, want %v", err, tc.want)
			}
			if *at = func() { s.store.lookup = errors.New("disk I/O error") }; tc.want != nil {
				if _, err = s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 44, ID: 101, Resumed: true}); !errors.Is(err, order.ErrUnavailable) {
					t.Errorf("where nobody knows: %v, want ErrUnavailable", err)
				}
			}
		})
	}
}
