package order_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

func TestPlaceTakesTheStepsInOrder(t *testing.T) {
	for _, tc := range []struct {
		name   string
		policy func(*voucher.Policy)
		want   []string
	}{
		{"default", nil,
			[]string{"acquire", "begin", "decrement", "insert", "commit", "stop", "release"}},
		{"not unique", func(p *voucher.Policy) { p.Unique = false },
			[]string{"acquire", "begin", "ordered?", "decrement", "insert", "commit", "stop", "release"}},
		{"with faults", func(p *voucher.Policy) { p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 1}} },
			[]string{"acquire", "begin", "decrement", "insert", "flush", "commit", "stop", "release"}},
		{"unguarded", func(p *voucher.Policy) { p.Stock = voucher.StockUnguarded },
			[]string{"acquire", "begin", "stock?", "set stock 9", "insert", "commit", "stop", "release"}},
		{"version", func(p *voucher.Policy) { p.Stock = voucher.StockVersion },
			[]string{"acquire", "begin", "stock?", "decrement version", "insert", "commit", "stop", "release"}},
		{"fenced", func(p *voucher.Policy) { p.Stock = voucher.StockFenced },
			[]string{"acquire", "begin", "decrement fenced 33", "insert", "commit", "stop", "release"}},
		{"inside the transaction: released before the commit", func(p *voucher.Policy) { p.Placement = voucher.InsideTx },
			[]string{"begin", "acquire", "decrement", "insert", "stop", "release", "commit"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFixture(t, tc.policy)
			s.lock.token = 33
			o, err := s.order(t)
			if err != nil || o.Status != order.Confirmed || o.UserID != 42 || o.VoucherID != 7 || o.ID != 1 {
				t.Fatalf("Place = %+v, %v", o, err)
			}
			if got := s.steps.all(); !slices.Equal(got, tc.want) {
				t.Errorf("steps\n got %q\nwant %q", got, tc.want)
			}
			if s.store.stock != 9 || s.store.orders[1] != o {
				t.Errorf("stock %d, stored %+v", s.store.stock, s.store.orders[1])
			}
		})
	}
}

func TestPlaceRefusesBeforeTheLock(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*fixture)
		want error
	}{
		{"before the sale", func(s *fixture) { s.now = begin.Add(-1) }, voucher.ErrNotStarted},
		{"after the sale", func(s *fixture) { s.now = begin.Add(time.Hour) }, voucher.ErrEnded},
		{"no stock left", func(s *fixture) { s.vouchers.v.Stock = 0 }, voucher.ErrSoldOut},
		{"no such voucher", func(s *fixture) { s.vouchers.v.ID = 8 }, voucher.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newFixture(t, nil)
			tc.set(s)
			if _, err := s.order(t); !errors.Is(err, tc.want) {
				t.Errorf("err = %v, want %v", err, tc.want)
			}
			if steps := s.steps.all(); len(steps) != 0 {
				t.Errorf("it continued with %q", steps)
			}
		})
	}
}

func TestPlaceUnderTheLock(t *testing.T) {
	t.Run("a second order of the same user", func(t *testing.T) {
		s := newFixture(t, nil)
		if _, err := s.order(t); err != nil {
			t.Fatal(err)
		}
		if _, err := s.order(t); !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("err = %v", err)
		}
		if s.store.stock != 9 || s.lock.taken.Load() {
			t.Errorf("stock %d, lock taken %v", s.store.stock, s.lock.taken.Load())
		}
	})
	t.Run("sold out, while the cached stock says otherwise", func(t *testing.T) {
		s := newFixture(t, nil)
		s.store.stock = 0
		if _, err := s.order(t); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("err = %v", err)
		}
		if len(s.store.orders) != 0 || s.vouchers.soldOut.Load() != 1 {
			t.Errorf("orders %v, SoldOut called %d times", s.store.orders, s.vouchers.soldOut.Load())
		}
	})
	t.Run("another owner has the lock", func(t *testing.T) {
		s := newFixture(t, nil)
		s.lock.taken.Store(true)
		_, err := s.order(t)
		held, ok := errors.AsType[*lock.NotAcquiredError](err)
		if !errors.Is(err, order.ErrBusy) || !ok || held.Holder != "other" {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("the lock is lost during the work", func(t *testing.T) {
		s := newFixture(t, func(p *voucher.Policy) {
			p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 1000}}
		})
		synctest.Test(t, func(t *testing.T) {
			done := make(chan error)
			go func() {
				_, err := s.order(t)
				done <- err
			}()
			synctest.Wait() // in the pause
			s.lock.last.Lose(lock.ErrExpired)
			if err := <-done; !errors.Is(err, lock.ErrExpired) {
				t.Errorf("err = %v, want the cause of the loss", err)
			}
		})
		if len(s.store.orders) != 0 || s.store.stock != 10 {
			t.Errorf("an order was placed without the lock: %v", s.store.orders)
		}
	})
	t.Run("options and key follow the policy", func(t *testing.T) {
		s := newFixture(t, func(p *voucher.Policy) { p.LockTTLMS, p.LockWaitMS = 250, 1500 })
		_, _ = s.order(t)
		if s.lock.key != "order:7:42" || s.lock.opts.TTL != 250*time.Millisecond || s.lock.opts.Wait != 1500*time.Millisecond {
			t.Errorf("key %q, options %+v", s.lock.key, s.lock.opts)
		}
		s = newFixture(t, func(p *voucher.Policy) { p.Scope = voucher.ScopeVoucher })
		_, _ = s.order(t)
		if s.lock.key != "stock:7" {
			t.Errorf("key %q", s.lock.key)
		}
	})
	t.Run("a failed release does not undo the order", func(t *testing.T) {
		s := newFixture(t, nil)
		s.lock.release = lock.ErrLost
		if _, err := s.order(t); err != nil || len(s.store.orders) != 1 {
			t.Errorf("err = %v, orders %v", err, s.store.orders)
		}
	})
	t.Run("a cancelled request still releases its lock", func(t *testing.T) {
		s := newFixture(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Place(ctx, order.Request{VoucherID: 7, UserID: 42})
		if !errors.Is(err, context.Canceled) || s.lock.taken.Load() || slices.Contains(s.steps.all(), "release on a dead context") {
			t.Errorf("err = %v, steps %q", err, s.steps.all())
		}
	})
	t.Run("a repeated transaction places one order", func(t *testing.T) {
		s := newFixture(t, nil)
		s.store.collisions = 3
		if _, err := s.order(t); err != nil || len(s.store.orders) != 1 || s.store.stock != 9 {
			t.Errorf("err = %v, orders %v, stock %d", err, s.store.orders, s.store.stock)
		}
	})
}

func TestFaultsInTheFlow(t *testing.T) {
	points := []lock.Point{lock.HolderCrash, lock.CriticalSection, lock.BeforeCommit, lock.AfterCommit, lock.BeforeRelease}
	for _, at := range points {
		committed := at == lock.AfterCommit || at == lock.BeforeRelease
		t.Run(fmt.Sprintf("abandon at %s", at), func(t *testing.T) {
			s := newFixture(t, func(p *voucher.Policy) {
				p.Faults = []lock.Fault{{Point: at, Effect: lock.EffectAbandon}}
			})
			_, err := s.order(t)
			if at != lock.BeforeRelease && !errors.Is(err, lock.ErrAbandoned) {
				t.Errorf("err = %v", err)
			}
			steps := s.steps.all()
			if slices.Contains(steps, "release") || !slices.Contains(steps, "stop") {
				t.Errorf("an abandoned lease was released, or is still renewed: %q", steps)
			}
			if got := len(s.store.orders) == 1; got != committed {
				t.Errorf("order stored %v, want %v", got, committed)
			}
		})
		t.Run(fmt.Sprintf("error at %s", at), func(t *testing.T) {
			s := newFixture(t, func(p *voucher.Policy) {
				p.Faults = []lock.Fault{{Point: at, Effect: lock.EffectError}}
			})
			_, err := s.order(t)
			if at != lock.BeforeRelease && !errors.Is(err, lock.ErrInjected) {
				t.Errorf("err = %v", err)
			}
			if s.lock.taken.Load() {
				t.Error("the lock was not released")
			}
			if got := len(s.store.orders) == 1; got != committed {
				t.Errorf("order stored %v, want %v", got, committed)
			}
		})
	}
	t.Run("panic in the critical section", func(t *testing.T) {
		s := newFixture(t, func(p *voucher.Policy) {
			p.Faults = []lock.Fault{{Point: lock.CriticalSection, Effect: lock.EffectPanic}}
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not reach the caller")
				}
			}()
			_, _ = s.order(t)
		}()
		if s.lock.taken.Load() || len(s.store.orders) != 0 {
			t.Error("the panic left the lock held or an order stored")
		}
	})
}

func TestUnknownOutcomeOfACommitIsResolved(t *testing.T) {
	t.Run("it was carried out", func(t *testing.T) {
		s := newFixture(t, nil)
		s.store.commit = order.ErrUnavailable
		if o, err := s.order(t); err != nil || o.ID != 1 {
			t.Errorf("Place = %+v, %v, want the stored order", o, err)
		}
	})
	t.Run("a crash can still undo it", func(t *testing.T) {
		s := newFixture(t, nil)
		s.store.commit, s.store.flush = order.ErrUnavailable, order.ErrUnavailable
		for _, resumed := range []bool{false, true} {
			o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: resumed})
			if !errors.Is(err, order.ErrUnavailable) || o != (order.Order{}) {
				t.Errorf("resumed %t: Place = %+v, %v", resumed, o, err)
			}
		}
		s.store.flush = nil
		if o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true}); err != nil || o.ID != 99 {
			t.Errorf("once it is on the disk: %+v, %v", o, err)
		}
	})
	t.Run("the database does not answer", func(t *testing.T) {
		s := newFixture(t, nil)
		s.store.commit, s.store.lookup = order.ErrUnavailable, order.ErrUnavailable
		if _, err := s.order(t); !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestResumedOrderFindsTheEarlierOne(t *testing.T) {
	s := newFixture(t, nil)
	req := order.Request{VoucherID: 7, UserID: 42, ID: 99}
	first, err := s.Place(t.Context(), req)
	if err != nil || first.ID != 99 {
		t.Fatalf("Place = %+v, %v", first, err)
	}
	// Without Resumed, the same request is a second order and is refused.
	if _, err := s.Place(t.Context(), req); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("err = %v", err)
	}
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
		})
	}
}

// The earlier attempt commits between the query for its order and the writes of the attempt that
// resumes it.
func TestResumedOrderCollidesWithTheEarlierAttempt(t *testing.T) {
	for _, left := range []int64{0, 3} {
		s := newFixture(t, nil)
		earlier := order.Order{ID: 99, VoucherID: 7, UserID: 42, Status: order.Confirmed}
		s.store.before = func() { s.store.orders[99], s.store.stock = earlier, left }
		o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
		if err != nil || o != earlier || s.store.stock != left {
			t.Errorf("%d left: Place = %+v, %v, stock %d; want the earlier attempt's order", left, o, err, s.store.stock)
		}
	}
}

// The earlier attempt commits after the query for its order and before the voucher is loaded, which then cannot be
// bought any more.
func TestResumedOrderIsRefusedFromTheCache(t *testing.T) {
	for name, set := range map[string]func(*fixture){
		"it bought the last piece":       func(s *fixture) { s.vouchers.v.Stock = 0 },
		"it committed at the sale's end": func(s *fixture) { s.now = begin.Add(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, nil)
			earlier := order.Order{ID: 99, VoucherID: 7, UserID: 42, Status: order.Confirmed}
			s.vouchers.before = func() { s.store.orders[99] = earlier; set(s) }
			o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
			if err != nil || o != earlier {
				t.Errorf("Place = %+v, %v; want the earlier attempt's order", o, err)
			}
			_, err = s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 43, ID: 100, Resumed: true})
			if !errors.Is(err, voucher.ErrSoldOut) && !errors.Is(err, voucher.ErrEnded) {
				t.Errorf("without an earlier order: %v", err)
			}
			s.vouchers.before = func() { s.store.lookup = errors.New("disk I/O error") }
			_, err = s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 44, ID: 101, Resumed: true})
			if !errors.Is(err, order.ErrUnavailable) {
				t.Errorf("where nobody knows: %v, want ErrUnavailable", err)
			}
		})
	}
}

func TestOrderIsVisibleToItsUserOnly(t *testing.T) {
	s := newFixture(t, nil)
	o, err := s.order(t)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Order(t.Context(), 42, o.ID); err != nil || got != o {
		t.Errorf("Order = %+v, %v", got, err)
	}
	if _, err := s.Order(t.Context(), 43, o.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("another user got %v", err)
	}
}

func TestAuditArithmetic(t *testing.T) {
	for _, tc := range []struct {
		name                             string
		a                                order.Audit
		oversold, duplicate, unaccounted int64
		balanced                         bool
	}{
		{"untouched", order.Audit{InitialStock: 100, Stock: 100}, 0, 0, 0, true},
		{"sold out", order.Audit{InitialStock: 100, Orders: 100, DistinctUsers: 100}, 0, 0, 0, true},
		{"lost updates", order.Audit{InitialStock: 100, Stock: 40, Orders: 100, DistinctUsers: 100}, 0, 0, -40, false},
		{"oversold", order.Audit{InitialStock: 100, Orders: 137, DistinctUsers: 137}, 37, 0, -37, false},
		{"four orders of one user", order.Audit{InitialStock: 100, Stock: 96, Orders: 4, DistinctUsers: 1}, 0, 3, 0, false},
		{"stock gone without orders", order.Audit{InitialStock: 100, Stock: 90, Orders: 4, DistinctUsers: 4}, 0, 0, 6, false},
		{"pending", order.Audit{InitialStock: 100, Stock: 90, Orders: 4, DistinctUsers: 4, Pending: 6}, 0, 0, 0, true},
	} {
		if o, d, u, b := tc.a.Oversold(), tc.a.DuplicateOrders(), tc.a.Unaccounted(), tc.a.Balanced(); o != tc.oversold || d != tc.duplicate || u != tc.unaccounted || b != tc.balanced {
			t.Errorf("%s: oversold %d, duplicates %d, unaccounted %d, balanced %v", tc.name, o, d, u, b)
		}
	}
}

// A seeded fault hits the same buyers in every process and on every run.
func TestSeededFaultHitsTheSameBuyers(t *testing.T) {
	hit := func() []int64 {
		var users []int64
		s := newFixture(t, func(p *voucher.Policy) {
			p.Faults = []lock.Fault{{Point: lock.CriticalSection, Effect: lock.EffectError, Probability: 0.3}}
			p.FaultSeed = 11
		})
		s.store.stock = 100
		for user := range int64(50) {
			switch _, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: user + 1}); {
			case errors.Is(err, lock.ErrInjected):
				users = append(users, user)
			case err != nil:
				t.Fatal(err)
			}
		}
		return users
	}
	first := hit()
	if again := hit(); !slices.Equal(first, again) || len(first) == 0 || len(first) == 50 {
		t.Errorf("hit %v, then %v", first, again)
	}
}
