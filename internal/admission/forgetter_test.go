package admission

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// forgetting is a fixture with a voucher whose sale has ended, all orders persisted, and a process that forgets
// vouchers at once.
type forgetting struct {
	*fixture
	gate     *Gate
	balances atomic.Bool
	kept     atomic.Int64
}

func newForgetting(t *testing.T, buckets int) *forgetting {
	f := &forgetting{fixture: newFixture(t, testkit.AnyRedis(t), 100)}
	f.split(buckets)
	f.balances.Store(true)
	f.gate = f.fixture.gate(nil)
	for user := range int64(20) {
		fail.NowIf(t, f.buy(f.gate, user+1, user+101))
	}
	f.idle()
	f.takeAll()
	for _, keys := range f.buckets() { // what consumers leave behind
		f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: keys.Dead, Values: []any{"o", "1"}})
		f.client.HSet(t.Context(), keys.Tries, "1-1", 1)
		f.client.XGroupCreateMkStream(t.Context(), keys.Orders, ledger.Group, "0")
	}
	return f
}

// end moves the end of the sale into the past.
func (f *forgetting) end() { f.moveEnd(time.Now().Add(-time.Minute)) }

// moveEnd changes the end of the sale in the database and, if the voucher is open there, in Redis: as if the sale had
// had that end from the beginning.
func (f *forgetting) moveEnd(to time.Time) {
	f.store.mu.Lock()
	f.store.voucher.EndAt = to
	f.store.mu.Unlock()
	for _, keys := range f.buckets() {
		if f.client.HExists(f.t.Context(), keys.Meta, ledger.FieldStock).Val() {
			f.client.HSet(f.t.Context(), keys.Meta, ledger.FieldEnd, to.Truncate(time.Microsecond).UnixMilli())
		}
	}
}

func (f *forgetting) forgetter() *Forgetter {
	f.t.Helper()
	r, err := f.gate.Forgetter(ForgetConfig{
		After: 30 * time.Second, Log: slog.New(slog.DiscardHandler),
		Balances: func(context.Context, contract.AdmissionVoucher) (bool, error) { return f.balances.Load(), nil },
		Kept:     func(n int) { f.kept.Store(int64(n)) },
	})
	fail.NowIf(f.t, err)
	return r
}

// rounds runs n rounds. Between them the grace period of the streams passes.
func (f *forgetting) rounds(r *Forgetter, n int) {
	for range n {
		r.Round(f.t.Context())
		for id := range r.firstSeen {
			r.firstSeen[id] = time.Now().Add(-streamGrace)
		}
	}
}

// keysLeft returns the keys that Redis has of the voucher.
func (f *forgetting) keysLeft() []string {
	f.t.Helper()
	left, err := f.client.Keys(f.t.Context(), f.prefix+"*").Result()
	fail.NowIf(f.t, err)
	return left
}

func (f *forgetting) epochState() contract.EpochState {
	st, _ := f.store.EpochState(context.Background(), f.store.voucher.ID)
	return st
}

// A voucher whose sale has been over for long enough is removed from Redis in steps, and late requests are answered
// without Redis.
func TestVoucherIsForgotten(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 4} {
		f := newForgetting(t, buckets)
		one, other := f.forgetter(), f.forgetter()
		f.rounds(one, 2)
		fail.NowUnequal(t, f.epochState().Epoch, 2, "a voucher on sale was closed: epoch")
		f.end()
		before := len(f.keysLeft())
		f.rounds(one, 1)
		for _, keys := range f.buckets() {
			fail.Unequal(t, f.client.Exists(t.Context(), keys.Users, keys.Orders).Val(), 1, "users and orders after the first step, which leaves the orders")
		}
		for range 2 { // both processes at it
			f.rounds(one, 1)
			f.rounds(other, 1)
		}
		st := f.epochState()
		if left := f.keysLeft(); len(left) > 0 || !st.Forgotten || !f.store.cleared {
			t.Errorf("%d buckets, %d keys before, left: %v; %+v", buckets, before, left, st)
		}
		fail.Unequal(t, f.gate.known(f.store.voucher.ID), nil, "the gate remembers the voucher")
		if err := f.buy(f.gate, 77, 777); !errors.Is(err, voucher.ErrEnded) || errors.Is(err, order.ErrUnavailable) {
			t.Errorf("a late buyer was told %v", err)
		}
		fail.Unless(t, fail.Of(f.gate.Lookup(t.Context(), 77, 777)), order.ErrNotFound, "an unknown order")
		fail.Unless(t, f.gate.Open(t.Context(), &f.store.voucher), voucher.ErrEnded, "Open")
		a, err := f.gate.Audit(t.Context(), f.store.voucher.ID)
		if want := (order.GateAudit{Stock: 80, Epoch: st.Epoch}); err != nil || a != want {
			t.Errorf("audit %+v, %v; want %+v", a, err, want)
		}
		f.idle()
		f.gate.Check(t.Context())
		fail.Unequal(t, f.gate.known(f.store.voucher.ID), nil, "the gate does not drop the voucher again")
		if left := f.keysLeft(); len(left) > 0 {
			t.Errorf("late requests brought back %v", left)
		}
	}
}

// A voucher is not forgotten as long as anything about it is not settled.
func TestUnsettledVoucherIsNotForgotten(t *testing.T) {
	t.Parallel()
	entry := &redis.XAddArgs{Values: []any{"o", "1", "u", "1", "e", "2"}}
	for name, unsettle := range map[string]struct{ do, undo func(f *forgetting) }{
		"an order on its way": {
			func(f *forgetting) { entry.Stream = f.others[0].Orders; f.client.XAdd(f.t.Context(), entry) },
			func(f *forgetting) { f.client.XTrimMaxLen(f.t.Context(), f.others[0].Orders, 0) },
		},
		"it does not balance": {
			func(f *forgetting) { f.balances.Store(false) },
			func(f *forgetting) { f.balances.Store(true) },
		},
		"another stock in Redis": {
			func(f *forgetting) { f.client.HIncrBy(f.t.Context(), f.keys.Meta, ledger.FieldStock, 1) },
			func(f *forgetting) { f.client.HIncrBy(f.t.Context(), f.keys.Meta, ledger.FieldStock, -1) },
		},
		"a bucket forgot what it gave": {
			func(f *forgetting) { f.client.HSet(f.t.Context(), f.keys.Meta, ledger.FieldFrom+"1", 3) },
			func(f *forgetting) { f.client.HDel(f.t.Context(), f.keys.Meta, ledger.FieldFrom+"1") },
		},
		"the sale ended a moment ago": {
			func(f *forgetting) { f.moveEnd(time.Now().Add(-20 * time.Second)) },
			func(f *forgetting) { f.end() },
		},
		"another process opens it": {
			func(f *forgetting) {
				f.store.mu.Lock()
				defer f.store.mu.Unlock()
				f.store.onForget = func() { f.store.epochState.Epoch |= 1; f.store.epochState.Epoch++ }
			},
			func(f *forgetting) {
				f.store.mu.Lock()
				f.store.onForget = nil
				f.store.mu.Unlock()
				f.gate.Check(f.t.Context()) // opens it again
				fail.If(f.t, f.gate.Open(f.t.Context(), &f.store.voucher))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgetting(t, 4)
			f.end()
			unsettle.do(f)
			r := f.forgetter()
			f.rounds(r, 3)
			if st := f.epochState(); st.Forgotten || f.client.HLen(t.Context(), f.keys.Users).Val() == 0 {
				t.Fatalf("%+v, keys %v", st, f.keysLeft())
			}
			unsettle.undo(f)
			clear(r.unbalanced) // as after keptFor
			f.rounds(r, 4)
			if left := f.keysLeft(); len(left) > 0 || !f.epochState().Forgotten || f.kept.Load() != 0 {
				t.Errorf("settled, and not forgotten: %+v, %v", f.epochState(), left)
			}
		})
	}
}

// A process stops after any of the steps. Another process, or the same one later, finishes the work.
func TestForgetterCanStopAnywhere(t *testing.T) {
	t.Parallel()
	for stop := int64(0); ; stop++ {
		f := newForgetting(t, 2)
		f.end()
		alive, killed := f.gate, f.fixture.gate(nil)
		var left atomic.Int64 // calls until it dies
		left.Store(stop)
		killed.ledger = &faulty{buckets: killed.ledger, call: func(_ context.Context, _ string, _ ledger.Keys, do func() error) error {
			if left.Add(-1) < 0 {
				return io.EOF
			}
			return do()
		}}
		f.gate = killed
		f.rounds(f.forgetter(), 4)
		f.gate = alive
		f.rounds(f.forgetter(), 4)
		if left := f.keysLeft(); len(left) > 0 || !f.store.cleared {
			t.Fatalf("stopped after %d calls: %+v, %v", stop, f.epochState(), left)
		}
		if left.Load() > 0 { // it came to its end
			return
		}
	}
}

// The end of the sale is moved after the voucher was forgotten: the voucher is opened again from the database. A
// process that was paused while it removed keys then does no harm.
func TestForgottenVoucherIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, rounds := range []int{1, 4} { // in the middle of its removal, and after
		f := newForgetting(t, 2)
		f.end()
		f.rounds(f.forgetter(), rounds)
		old := f.epochState().Epoch
		f.moveEnd(time.Now().Add(time.Hour))
		finish := f.run()
		fail.Unless(t, f.buy(f.gate, 3, 999), order.ErrAlreadyOrdered, "a second order")
		fail.Unless(t, f.buy(f.gate, 500, 5000), nil, "a new buyer")
		st := f.epochState()
		if st.Forgotten || st.Epoch != old+3 || f.store.cleared {
			t.Errorf("%+v, was %d", st, old)
		}
		before := f.client.HLen(t.Context(), f.keys.Users).Val()
		for _, keys := range f.buckets() { // the paused process
			r, err := f.gate.ledger.Remove(t.Context(), keys, old, true)
			if err != nil || r.Verdict != ledger.OtherEpoch {
				t.Errorf("%+v, %v", r, err)
			}
		}
		fail.Unequal(t, f.client.HLen(t.Context(), f.keys.Users).Val(), before, "%d users, then", before)
		fail.Unless(t, f.buy(f.gate, 500, 5001), order.ErrAlreadyOrdered, "a second order")
		finish()
		f.balanced(f.gate, 21)
	}
}

// The end of the sale is moved while the voucher is open: Redis gets the new end.
func TestEndIsMoved(t *testing.T) {
	t.Parallel()
	f := newForgetting(t, 2)
	f.end()
	fail.Unless(t, f.buy(f.gate, 50, 500), voucher.ErrEnded, "after the end")
	f.store.mu.Lock()
	f.store.voucher.EndAt = time.Now().Add(time.Hour) // in the database alone
	f.store.mu.Unlock()
	fail.Unless(t, f.buy(f.gate, 50, 500), nil, "the end was moved")
	f.takeAll()
	f.balanced(f.gate, 21)
}

// After a failover Redis has older data again. It is removed too, once no order is pending.
func TestDataOfAForgottenVoucherReappears(t *testing.T) {
	t.Parallel()
	f := newForgetting(t, 1)
	f.end()
	r := f.forgetter()
	f.rounds(r, 2)
	f.client.HSet(t.Context(), f.keys.Meta, ledger.FieldEpoch, 2, ledger.FieldStock, 90)
	f.client.HSet(t.Context(), f.keys.Users, "1", "101")
	f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: f.keys.Orders, Values: []any{"o", "101", "u", "1", "e", "2", "s", "1"}})
	f.rounds(r, 3)
	if n := f.client.XLen(t.Context(), f.keys.Orders).Val(); n != 1 || f.store.cleared {
		t.Errorf("%d pending orders, cleared %v", n, f.store.cleared)
	}
	f.takeAll()
	f.rounds(r, 3)
	if left := f.keysLeft(); len(left) > 0 || !f.store.cleared {
		t.Errorf("left: %v", left)
	}
	if got := int64(len(f.store.orders)); got != 20 || f.epochState().Stock != 80 {
		t.Errorf("%d orders, %+v", got, f.epochState())
	}
}

// idle waits for the goroutines that have answered requests: until they end, the gate keeps the voucher.
func (f *forgetting) idle() {
	for v := f.gate.known(f.store.voucher.ID); v != nil && !v.idle(); {
		runtime.Gosched()
	}
}
