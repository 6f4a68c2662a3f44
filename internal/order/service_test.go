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

func TestPlacePassesTheStepsInOrder(t *testing.T) {
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
			s := newShop(t, tc.policy)
			s.lock.token = 33
			o, err := s.buy(t)
			if err != nil || o.Status != order.Confirmed || o.UserID != 42 || o.VoucherID != 7 || o.ID != 1 {
				t.Fatalf("Place = %+v, %v", o, err)
			}
			if got := s.trace.all(); !slices.Equal(got, tc.want) {
				t.Errorf("steps\n got %q\nwant %q", got, tc.want)
			}
			if s.store.stock != 9 || s.store.orders[1] != o {
				t.Errorf("stock %d, stored %+v", s.store.stock, s.store.orders[1])
			}
		})
	}
}

func TestPlaceTurnsAwayBeforeTheLock(t *testing.T) {
	for _, tc := range []struct {
		name string
		set  func(*shop)
		want error
	}{
		{"before the sale", func(s *shop) { s.now = begin.Add(-1) }, voucher.ErrNotStarted},
		{"after the sale", func(s *shop) { s.now = begin.Add(time.Hour) }, voucher.ErrEnded},
		{"nothing left", func(s *shop) { s.vouchers.v.Stock = 0 }, voucher.ErrSoldOut},
		{"no such voucher", func(s *shop) { s.vouchers.v.ID = 8 }, voucher.ErrNotFound},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newShop(t, nil)
			tc.set(s)
			if _, err := s.buy(t); !errors.Is(err, tc.want) {
				t.Errorf("err = %v, want %v", err, tc.want)
			}
			if steps := s.trace.all(); len(steps) != 0 {
				t.Errorf("it went on to %q", steps)
			}
		})
	}
}

func TestPlaceUnderTheLock(t *testing.T) {
	t.Run("a second order of the same user", func(t *testing.T) {
		s := newShop(t, nil)
		if _, err := s.buy(t); err != nil {
			t.Fatal(err)
		}
		if _, err := s.buy(t); !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("err = %v", err)
		}
		if s.store.stock != 9 || s.lock.taken.Load() {
			t.Errorf("stock %d, lock taken %v", s.store.stock, s.lock.taken.Load())
		}
	})
	t.Run("sold out behind a stale look at the stock", func(t *testing.T) {
		s := newShop(t, nil)
		s.store.stock = 0
		if _, err := s.buy(t); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("err = %v", err)
		}
		if len(s.store.orders) != 0 || s.vouchers.soldOut.Load() != 1 {
			t.Errorf("orders %v, marks %d", s.store.orders, s.vouchers.soldOut.Load())
		}
	})
	t.Run("somebody else has the lock", func(t *testing.T) {
		s := newShop(t, nil)
		s.lock.taken.Store(true)
		_, err := s.buy(t)
		held, ok := errors.AsType[*lock.NotAcquiredError](err)
		if !errors.Is(err, order.ErrBusy) || !ok || held.Holder != "other" {
			t.Errorf("err = %v", err)
		}
	})
	t.Run("the lock is lost during the work", func(t *testing.T) {
		s := newShop(t, func(p *voucher.Policy) {
			p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 1000}}
		})
		synctest.Test(t, func(t *testing.T) {
			done := make(chan error)
			go func() {
				_, err := s.buy(t)
				done <- err
			}()
			synctest.Wait() // in the pause
			s.lock.last.Lose(lock.ErrExpired)
			if err := <-done; !errors.Is(err, lock.ErrExpired) {
				t.Errorf("err = %v, want the cause of the loss", err)
			}
		})
		if len(s.store.orders) != 0 || s.store.stock != 10 {
			t.Errorf("something was sold without the lock: %v", s.store.orders)
		}
	})
	t.Run("options and key follow the policy", func(t *testing.T) {
		s := newShop(t, func(p *voucher.Policy) { p.LockTTLMS, p.LockWaitMS = 250, 1500 })
		_, _ = s.buy(t)
		if s.lock.key != "order:7:42" || s.lock.opts.TTL != 250*time.Millisecond || s.lock.opts.Wait != 1500*time.Millisecond {
			t.Errorf("key %q, options %+v", s.lock.key, s.lock.opts)
		}
		s = newShop(t, func(p *voucher.Policy) { p.Scope = voucher.ScopeVoucher })
		_, _ = s.buy(t)
		if s.lock.key != "stock:7" {
			t.Errorf("key %q", s.lock.key)
		}
	})
	t.Run("a failed release does not unsell", func(t *testing.T) {
		s := newShop(t, nil)
		s.lock.release = lock.ErrLost
		if _, err := s.buy(t); err != nil || len(s.store.orders) != 1 {
			t.Errorf("err = %v, orders %v", err, s.store.orders)
		}
	})
	t.Run("a cancelled request still frees its lock", func(t *testing.T) {
		s := newShop(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Place(ctx, order.Request{VoucherID: 7, UserID: 42})
		if !errors.Is(err, context.Canceled) || s.lock.taken.Load() || slices.Contains(s.trace.all(), "release on a dead context") {
			t.Errorf("err = %v, steps %q", err, s.trace.all())
		}
	})
	t.Run("a repeated transaction sells once", func(t *testing.T) {
		s := newShop(t, nil)
		s.store.repeated = 3
		if _, err := s.buy(t); err != nil || len(s.store.orders) != 1 || s.store.stock != 9 {
			t.Errorf("err = %v, orders %v, stock %d", err, s.store.orders, s.store.stock)
		}
	})
}

func TestFaultsInTheFlow(t *testing.T) {
	points := []lock.Point{lock.HolderCrash, lock.CriticalSection, lock.BeforeCommit, lock.AfterCommit, lock.BeforeRelease}
	for _, at := range points {
		committed := at == lock.AfterCommit || at == lock.BeforeRelease
		t.Run(fmt.Sprintf("abandon at %s", at), func(t *testing.T) {
			s := newShop(t, func(p *voucher.Policy) {
				p.Faults = []lock.Fault{{Point: at, Effect: lock.EffectAbandon}}
			})
			_, err := s.buy(t)
			if at != lock.BeforeRelease && !errors.Is(err, lock.ErrAbandoned) {
				t.Errorf("err = %v", err)
			}
			steps := s.trace.all()
			if slices.Contains(steps, "release") || !slices.Contains(steps, "stop") {
				t.Errorf("a dead holder released, or went on renewing: %q", steps)
			}
			if got := len(s.store.orders) == 1; got != committed {
				t.Errorf("order stored %v, want %v", got, committed)
			}
		})
		t.Run(fmt.Sprintf("error at %s", at), func(t *testing.T) {
			s := newShop(t, func(p *voucher.Policy) {
				p.Faults = []lock.Fault{{Point: at, Effect: lock.EffectError}}
			})
			_, err := s.buy(t)
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
		s := newShop(t, func(p *voucher.Policy) {
			p.Faults = []lock.Fault{{Point: lock.CriticalSection, Effect: lock.EffectPanic}}
		})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic came through")
				}
			}()
			_, _ = s.buy(t)
		}()
		if s.lock.taken.Load() || len(s.store.orders) != 0 {
			t.Error("the panic kept the lock or left an order")
		}
	})
}

func TestUnknownCommitIsFoundOut(t *testing.T) {
	t.Run("it had been carried out", func(t *testing.T) {
		s := newShop(t, nil)
		s.store.commit = order.ErrUnavailable
		if o, err := s.buy(t); err != nil || o.ID != 1 {
			t.Errorf("Place = %+v, %v, want the order that is there", o, err)
		}
	})
	t.Run("nobody can say", func(t *testing.T) {
		s := newShop(t, nil)
		s.store.commit, s.store.lookup = order.ErrUnavailable, order.ErrUnavailable
		if _, err := s.buy(t); !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("err = %v", err)
		}
	})
}

func TestResumedOrderGetsTheOneAnswer(t *testing.T) {
	s := newShop(t, nil)
	req := order.Request{VoucherID: 7, UserID: 42, ID: 99}
	first, err := s.Place(t.Context(), req)
	if err != nil || first.ID != 99 {
		t.Fatalf("Place = %+v, %v", first, err)
	}
	// Not resumed, the same request is a second order and is refused.
	if _, err := s.Place(t.Context(), req); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("err = %v", err)
	}
	// Resumed, it is the first one, even after the sale.
	s.now = begin.Add(2 * time.Hour)
	req.Resumed = true
	if o, err := s.Place(t.Context(), req); err != nil || o != first {
		t.Errorf("resumed: %+v, %v, want %+v", o, err, first)
	}
	s.now = begin
	// Resumed where nothing had been placed, it places.
	if o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 43, ID: 100, Resumed: true}); err != nil || o.ID != 100 {
		t.Errorf("resumed: %+v, %v", o, err)
	}
}

// An order under the request's id that is not what it asks for is not shown to it.
func TestResumedOrderUnderAnIDThatIsAnothers(t *testing.T) {
	for name, there := range map[string]order.Order{
		"user":    {ID: 99, VoucherID: 7, UserID: 43, Status: order.Confirmed},
		"voucher": {ID: 99, VoucherID: 8, UserID: 42, Status: order.Confirmed},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, nil)
			s.store.orders[99] = there
			o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
			if !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, order.ErrIDTaken) || o != (order.Order{}) {
				t.Errorf("Place = %+v, %v; want that it is unavailable", o, err)
			}
			if s.store.stock != 10 || len(s.store.orders) != 1 {
				t.Errorf("stock %d, orders %v", s.store.stock, s.store.orders)
			}
		})
	}
}

// The earlier attempt's commit arrives between the look for its order and the
// writes of the one that resumes it.
func TestResumedOrderMeetsTheEarlierAttempt(t *testing.T) {
	for _, left := range []int64{0, 3} {
		s := newShop(t, nil)
		earlier := order.Order{ID: 99, VoucherID: 7, UserID: 42, Status: order.Confirmed}
		s.store.before = func() { s.store.orders[99], s.store.stock = earlier, left }
		o, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: 42, ID: 99, Resumed: true})
		if err != nil || o != earlier || s.store.stock != left {
			t.Errorf("%d left: Place = %+v, %v, stock %d; want the earlier attempt's order", left, o, err, s.store.stock)
		}
	}
}

func TestOrderIsItsUsersOnly(t *testing.T) {
	s := newShop(t, nil)
	o, err := s.buy(t)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Order(t.Context(), 42, o.ID); err != nil || got != o {
		t.Errorf("Order = %+v, %v", got, err)
	}
	if _, err := s.Order(t.Context(), 43, o.ID); !errors.Is(err, order.ErrNotFound) {
		t.Errorf("a stranger got %v", err)
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
		{"twice", order.Audit{InitialStock: 100, Stock: 96, Orders: 4, DistinctUsers: 1}, 0, 3, 0, false},
		{"stock gone without orders", order.Audit{InitialStock: 100, Stock: 90, Orders: 4, DistinctUsers: 4}, 0, 0, 6, false},
		{"pending", order.Audit{InitialStock: 100, Stock: 90, Orders: 4, DistinctUsers: 4, Pending: 6}, 0, 0, 0, true},
	} {
		if o, d, u, b := tc.a.Oversold(), tc.a.DuplicateOrders(), tc.a.Unaccounted(), tc.a.Balanced(); o != tc.oversold || d != tc.duplicate || u != tc.unaccounted || b != tc.balanced {
			t.Errorf("%s: oversold %d, duplicates %d, unaccounted %d, balanced %v", tc.name, o, d, u, b)
		}
	}
}

// The buyers whom a seeded fault hits are the same in every process and on every run.
func TestSeededFaultHitsTheSameBuyers(t *testing.T) {
	hit := func() []int64 {
		var users []int64
		s := newShop(t, func(p *voucher.Policy) {
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
