package admission

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// faulty is Redis, of whose calls some fail.
type faulty struct {
	buckets
	// call carries a step out with do, or does not, and returns what the gate is told.
	call func(ctx context.Context, step string, keys ledger.Keys, do func() error) error
	// lost says why a bucket cannot be read; nil: all can.
	lost func(ctx context.Context, keys ledger.Keys) error
}

func (f *faulty) Admit(ctx context.Context, b *ledger.Batch) (d ledger.Decision, err error) {
	err = f.call(ctx, "admit", b.Keys, func() (err error) {
		d, err = f.buckets.Admit(ctx, b)
		return err
	})
	return d, err
}

func (f *faulty) States(ctx context.Context, keys []ledger.Keys) []ledger.State {
	all := make([]ledger.State, len(keys))
	err := f.call(ctx, "states", keys[0], func() error {
		all = f.buckets.States(ctx, keys)
		return nil
	})
	for i := range all {
		lost := err
		if lost == nil && f.lost != nil {
			lost = f.lost(ctx, keys[i])
		}
		if lost != nil {
			all[i] = ledger.State{Err: lost, Heard: time.Now()}
		}
	}
	return all
}

func (f *faulty) Give(ctx context.Context, keys ledger.Keys, epoch int64, to int, more bool) (t ledger.Transfer, err error) {
	err = f.call(ctx, "give", keys, func() (err error) {
		t, err = f.buckets.Give(ctx, keys, epoch, to, more)
		return err
	})
	return t, err
}

func (f *faulty) Take(ctx context.Context, keys ledger.Keys, epoch int64, from int, total int64) (t ledger.Transfer, err error) {
	err = f.call(ctx, "take", keys, func() (err error) {
		t, err = f.buckets.Take(ctx, keys, epoch, from, total)
		return err
	})
	return t, err
}

func (f *faulty) Close(ctx context.Context, keys ledger.Keys, epoch int64) (now int64, err error) {
	err = f.call(ctx, "close", keys, func() (err error) {
		now, err = f.buckets.Close(ctx, keys, epoch)
		return err
	})
	return now, err
}

func (f *faulty) Open(ctx context.Context, keys ledger.Keys, o ledger.Opening) (open bool, err error) {
	err = f.call(ctx, "open", keys, func() (err error) {
		open, err = f.buckets.Open(ctx, keys, o)
		return err
	})
	return open, err
}

func (f *faulty) Remove(ctx context.Context, keys ledger.Keys, epoch int64, all bool) (r ledger.Removal, err error) {
	err = f.call(ctx, "remove", keys, func() (err error) {
		r, err = f.buckets.Remove(ctx, keys, epoch, all)
		return err
	})
	return r, err
}

// bubble is a gate in a bubble of testing/synctest, whose calls take some time, and a voucher that is open.
type bubble struct {
	*Gate
	redis *fixture
	store *store
	sent  *sizes

	trip     time.Duration // of a call; where there is one bucket, only of orders
	calls    atomic.Int64  // with orders
	readings atomic.Int64  // of several buckets
	under    sync.Map      // the keys of buckets with orders under way
	// spoil decides about the nth call with orders: whether it is carried out, and what the gate is told.
	spoil func(n int64) (done bool, err error)
	// broken decides so about a step of a transfer.
	broken func(step string) (done bool, err error)
	// unread says why bucket 3 cannot be read.
	unread func(ctx context.Context) error
}

// sizes keeps how many orders each call had.
type sizes struct {
	buckets
	mu  sync.Mutex
	all []int
}

func (s *sizes) Admit(ctx context.Context, b *ledger.Batch) (ledger.Decision, error) {
	s.mu.Lock()
	s.all = append(s.all, b.Len())
	s.mu.Unlock()
	return s.buckets.Admit(ctx, b)
}

func newBubble(t *testing.T, stock int64, change func(*Config)) *bubble {
	t.Helper()
	return newSplitBubble(t, 1, stock, change)
}

// newSplitBubble returns a gate whose voucher has its whole stock in bucket 0.
func newSplitBubble(t *testing.T, buckets int, stock int64, change func(*Config)) *bubble {
	t.Helper()
	s := newFixture(t, simulate.NewRedis(t).Options(), stock)
	s.split(buckets)
	s.config.AttemptTimeout, s.config.DecisionTimeout, s.config.OpenWait = 0, 0, 0 // the defaults
	c := s.config.WithDefaults()
	if change != nil {
		change(&c)
	}
	b := &bubble{redis: s, store: s.store, sent: &sizes{buckets: newLedger(c)}}
	b.Gate = newGate(c, &faulty{buckets: b.sent, call: b.call, lost: b.lost})
	t.Cleanup(func() { _ = b.Close() })
	fail.NowIf(t, b.Open(t.Context(), &s.store.voucher))
	for bucket := range buckets {
		b.put(bucket, 0)
	}
	b.put(0, stock)
	b.trip = time.Millisecond
	return b
}

func (b *bubble) call(ctx context.Context, step string, keys ledger.Keys, do func() error) (err error) {
	if split := len(b.redis.others) > 0; !split && step != "admit" {
		return do()
	}
	if !sleep(ctx, b.trip) {
		return ctx.Err()
	}
	done := true
	switch {
	case step == "admit":
		if _, busy := b.under.LoadOrStore(keys, true); busy {
			panic("two round trips at once")
		}
		defer b.under.Delete(keys)
		if n := b.calls.Add(1); b.spoil != nil {
			done, err = b.spoil(n)
		}
	case b.broken != nil:
		done, err = b.broken(step)
	}
	if step == "states" {
		b.readings.Add(1)
	}
	if done {
		err = cmp.Or(err, do())
	}
	return err
}

func (b *bubble) lost(ctx context.Context, keys ledger.Keys) error {
	if all := b.redis.buckets(); b.unread == nil || keys != all[len(all)-1] {
		return nil
	}
	return b.unread(ctx)
}

// put gives a bucket a stock.
func (b *bubble) put(bucket int, stock int64) {
	fail.NowIf(b.redis.t, b.redis.client.HSet(context.Background(), b.redis.buckets()[bucket].Meta, ledger.FieldStock, stock).Err())
}

// order returns the order that Redis has of a user, or 0.
func (b *bubble) order(user int64) int64 {
	keys := b.voucher(&b.store.voucher).bucketOf(user).keys
	id, _ := b.redis.client.HGet(context.Background(), keys.Users, fmt.Sprint(user)).Int64()
	return id
}

func (b *bubble) buy(ctx context.Context, user int64) error {
	return b.Admit(ctx, &b.store.voucher, order.Order{ID: 10 * user, UserID: user, VoucherID: b.store.voucher.ID})
}
