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
	"seckill/internal/testkit/fail"
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
			if got := s.steps.all; !slices.Equal(got, tc.want) {
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
		{"an unsafe policy of a laboratory", func(s *fixture) { s.vouchers.v.Policy.Lock = "naive" }, voucher.ErrLabOnly},
	} {
		s := newFixture(t, nil)
		s.configure(t, order.Config{IDs: &counter{}})
		tc.set(s)
		fail.Unless(t, s.Refusal(t.Context(), order.Request{VoucherID: 7}), tc.want, "%s: Refusal", tc.name)
		if _, err := s.order(t); !errors.Is(err, tc.want) || len(s.steps.all) != 0 {
			t.Errorf("%s: err = %v, want %v; it continued with %q", tc.name, err, tc.want, s.steps.all)
		}
	}
}

func TestPlaceUnderTheLock(t *testing.T) {
	t.Run("a second order of the same user", func(t *testing.T) {
		s := newFixture(t, nil)
		fail.NowIf(t, fail.Of(s.order(t)))
		fail.Unless(t, fail.Of(s.order(t)), order.ErrAlreadyOrdered)
		if s.store.stock != 9 || s.lock.taken.Load() {
			t.Errorf("stock %d, lock taken %v", s.store.stock, s.lock.taken.Load())
		}
	})
	t.Run("sold out, while the cached stock says otherwise", func(t *testing.T) {
		for _, strategy := range []voucher.Stock{voucher.StockConditional, voucher.StockVersion, voucher.StockUnguarded} {
			s := newFixture(t, func(p *voucher.Policy) { p.Stock = strategy })
			s.store.stock = 0
			fail.Unless(t, fail.Of(s.order(t)), voucher.ErrSoldOut, "%s", strategy)
			if len(s.store.orders) != 0 || s.vouchers.soldOut.Load() != 1 {
				t.Errorf("%s: orders %v, SoldOut called %d times", strategy, s.store.orders, s.vouchers.soldOut.Load())
			}
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
			fail.Unless(t, <-done, lock.ErrExpired)
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
		fail.Unequal(t, s.lock.key, "stock:7", "key")
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
		if !errors.Is(err, context.Canceled) || s.lock.taken.Load() || slices.Contains(s.steps.all, "release on an ended context") {
			t.Errorf("err = %v, steps %q", err, s.steps.all)
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
	for _, at := range []lock.Point{lock.HolderCrash, lock.CriticalSection, lock.BeforeCommit, lock.AfterCommit, lock.BeforeRelease} {
		for effect, want := range map[lock.Effect]error{lock.EffectAbandon: lock.ErrAbandoned, lock.EffectError: lock.ErrInjected} {
			t.Run(fmt.Sprintf("%s at %s", effect, at), func(t *testing.T) {
				s := newFixture(t, func(p *voucher.Policy) { p.Faults = []lock.Fault{{Point: at, Effect: effect}} })
				if _, err := s.order(t); at != lock.BeforeRelease && !errors.Is(err, want) {
					t.Errorf("err = %v", err)
				}
				// An abandoned lease is not released, and not renewed any more.
				if steps := s.steps.all; slices.Contains(steps, "release") != (effect == lock.EffectError) || !slices.Contains(steps, "stop") {
					t.Errorf("steps %q", steps)
				}
				committed := at == lock.AfterCommit || at == lock.BeforeRelease
				fail.Unequal(t, len(s.store.orders) == 1, committed, "order stored")
			})
		}
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
		fail.Unless(t, fail.Of(s.order(t)), order.ErrUnavailable)
	})
}

// Suppose that a database reports a collision, although the transaction commits. Whatever the repetition meets, its own
// order or the stock that it has taken, the buyer is told of the order.
func TestRepetitionMeetsItsOwnOrder(t *testing.T) {
	for name, policy := range map[string]func(*voucher.Policy){
		"the unique index refuses it": nil,
		"a check finds it":            func(p *voucher.Policy) { p.Unique = false },
		"the token has been used":     func(p *voucher.Policy) { p.Stock = voucher.StockFenced },
		"the version has changed":     func(p *voucher.Policy) { p.Stock = voucher.StockVersion },
		"the lock is inside":          func(p *voucher.Policy) { p.Placement = voucher.InsideTx },
	} {
		for _, stock := range []int64{10, 1} { // it may have bought the last unit
			s := newFixture(t, policy)
			s.store.collisions, s.store.committed, s.store.stock = 1, true, stock
			if o, err := s.order(t); err != nil || o != s.store.orders[o.ID] || len(s.store.orders) != 1 || s.store.stock != stock-1 {
				t.Errorf("%s: Place = %+v, %v; stored %v, stock %d", name, o, err, s.store.orders, s.store.stock)
			}
			s = newFixture(t, policy)
			s.store.collisions, s.store.committed, s.store.stock, s.store.lookup = 1, true, stock, order.ErrUnavailable
			fail.Unless(t, fail.Of(s.order(t)), order.ErrUnavailable, "%s, and nobody knows", name)
		}
	}
}

// The service tells a user of an order only if the user has one. The row in the way may have been rolled back since, or
// be somebody else's.
func TestNobodyIsToldOfAnOrderThatDoesNotExist(t *testing.T) {
	for name, set := range map[string]func(*fakeStore){
		"the row is gone":                  func(m *fakeStore) { m.phantom = true },
		"somebody else's order has the id": func(m *fakeStore) { m.orders[1] = order.Order{ID: 1, VoucherID: 7, UserID: 43} },
		"another voucher's order has it":   func(m *fakeStore) { m.orders[1] = order.Order{ID: 1, VoucherID: 8, UserID: 42} },
		"nobody knows":                     func(m *fakeStore) { m.phantom, m.lookup = true, order.ErrUnavailable },
	} {
		s := newFixture(t, nil)
		set(s.store)
		if _, err := s.order(t); errors.Is(err, order.ErrAlreadyOrdered) || !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
	}
}

func TestAuditArithmetic(t *testing.T) {
	half := order.Audit{InitialStock: 100, Stock: 40, Orders: 60, DistinctUsers: 60}
	for _, tc := range []struct {
		name                                    string
		a                                       order.Audit
		gate                                    *order.GateAudit
		oversold, duplicate, unaccounted, drift int64
		balanced                                bool
	}{
		{"untouched", order.Audit{InitialStock: 100, Stock: 100}, nil, 0, 0, 0, 0, true},
		{"sold out", order.Audit{InitialStock: 100, Orders: 100, DistinctUsers: 100}, nil, 0, 0, 0, 0, true},
		{"lost updates", order.Audit{InitialStock: 100, Stock: 40, Orders: 100, DistinctUsers: 100}, nil, 0, 0, -40, 0, false},
		{"oversold", order.Audit{InitialStock: 100, Orders: 137, DistinctUsers: 137}, nil, 37, 0, -37, 0, false},
		{"four orders of one user", order.Audit{InitialStock: 100, Stock: 96, Orders: 4, DistinctUsers: 1}, nil, 0, 3, 0, 0, false},
		{"stock gone without orders", order.Audit{InitialStock: 100, Stock: 90, Orders: 4, DistinctUsers: 4}, nil, 0, 0, 6, 0, false},
		{"pending", order.Audit{InitialStock: 100, Stock: 90, Orders: 4, DistinctUsers: 4, Pending: 6}, nil, 0, 0, 0, 0, true},
		{"untouched, admission", order.Audit{InitialStock: 100, Stock: 100}, &order.GateAudit{Stock: 100}, 0, 0, 0, 0, true},
		{"in flight", half, &order.GateAudit{Stock: 15, Pending: 25}, 0, 0, 0, 0, true},
		{"too much stock at the gate", half, &order.GateAudit{Stock: 20, Pending: 25}, 0, 0, -5, 0, false},
		{"orders lost at the gate", half, &order.GateAudit{Stock: 15, Pending: 20}, 0, 0, 5, 0, false},
		{"too much stock in the database", order.Audit{InitialStock: 100, Stock: 50, Orders: 60, DistinctUsers: 60}, &order.GateAudit{Stock: 40}, 0, 0, 0, -10, false},
	} {
		tc.a.Gate = tc.gate
		drift := int64(0)
		if tc.gate != nil {
			drift = tc.a.Drift()
		}
		got := [...]int64{tc.a.Oversold(), tc.a.DuplicateOrders(), tc.a.Unaccounted(), drift}
		if want := [...]int64{tc.oversold, tc.duplicate, tc.unaccounted, tc.drift}; got != want || tc.a.Balanced() != tc.balanced {
			t.Errorf("%s: oversold, duplicates, unaccounted and drift are %v, balanced %v; want %v", tc.name, got, tc.a.Balanced(), want)
		}
	}
}

// A seeded fault hits the users that the policy says, on every run.
func TestSeededFaultHitsTheSameBuyers(t *testing.T) {
	s := newFixture(t, func(p *voucher.Policy) {
		p.Faults = []lock.Fault{{Point: lock.CriticalSection, Effect: lock.EffectError, Probability: 0.3}}
		p.FaultSeed = 11
	})
	s.store.stock = 100
	hits := 0
	for user := range int64(50) {
		_, err := s.Place(t.Context(), order.Request{VoucherID: 7, UserID: user + 1})
		want := len(s.vouchers.v.Policy.FaultsFor(user+1)) > 0
		if hit := errors.Is(err, lock.ErrInjected); hit != want || !hit && err != nil {
			t.Errorf("user %d: %v, want a hit: %v", user+1, err, want)
		}
		if want {
			hits++
		}
	}
	if hits == 0 || hits == 50 {
		t.Errorf("%d of 50 are hit", hits)
	}
}

// An order that was decided by what an administrator has changed meanwhile is decided again, by what the voucher is
// now. If the new revision cannot be had, nothing was sold, and the buyer tries again.
func TestOrderWhileTheVoucherIsChanged(t *testing.T) {
	for name, test := range map[string]struct {
		now  func(v voucher.Voucher) voucher.Voucher
		err  error
		want error
	}{
		"renamed":  {now: func(v voucher.Voucher) voucher.Voucher { v.Title = "another"; return v }},
		"paused":   {now: func(v voucher.Voucher) voucher.Voucher { v.Paused = true; return v }, want: voucher.ErrPaused},
		"ended":    {now: func(v voucher.Voucher) voucher.Voucher { v.EndAt = v.BeginAt; return v }, want: voucher.ErrEnded},
		"not read": {err: voucher.ErrBusy, want: voucher.ErrBusy},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			f.store.revision = 2
			f.vouchers.newer = func(old *voucher.Voucher) (*voucher.Voucher, error) {
				if test.err != nil {
					return nil, test.err
				}
				v := test.now(*old)
				v.Revision = 2
				return &v, nil
			}
			o, err := f.order(t)
			if !errors.Is(err, test.want) || (err == nil) != (len(f.store.orders) == 1) || err == nil && o.Status != order.Confirmed {
				t.Errorf("%+v, %v, want %v; stored %+v", o, err, test.want, f.store.orders)
			}
		})
	}
}
