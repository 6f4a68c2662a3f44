package admission

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// fakeLedger is Redis in a synctest bubble: an open voucher, with round trips that take some time.
type fakeLedger struct {
	store *store
	trip  time.Duration

	mu       sync.Mutex
	batches  [][]int64 // user ids
	buckets  []fakeBucket
	users    map[int64]int64
	calls    atomic.Int64 // of decide
	readings atomic.Int64
	// spoil decides about a call: done says whether the call is executed.
	spoil func(n int64) (done bool, err error)
	// broken decides about a step of a transfer, as spoil does.
	broken func(step string) (done bool, err error)
}

type fakeBucket struct {
	keys  ledger.Keys
	state ledger.State // Err is set where the bucket cannot be read
	under bool         // a round trip is under way
	hangs bool         // readings get no answer
}

func newFakeLedger(sh *store, stock int64) *fakeLedger {
	f := &fakeLedger{store: sh, trip: time.Millisecond, users: map[int64]int64{}}
	f.buckets = make([]fakeBucket, sh.voucher.Policy.BucketCount())
	for i := range f.buckets {
		f.buckets[i] = fakeBucket{
			keys:  ledger.KeysOf("", sh.voucher.ID, i),
			state: ledger.State{To: map[int]int64{}, From: map[int]int64{}},
		}
	}
	f.buckets[0].state.Stock = stock
	return f
}

func (f *fakeLedger) bucket(keys ledger.Keys) *fakeBucket {
	for i := range f.buckets {
		if f.buckets[i].keys == keys {
			return &f.buckets[i]
		}
	}
	panic("unknown keys")
}

// stock returns the stock of bucket 0.
func (f *fakeLedger) stock() *int64 { return &f.buckets[0].state.Stock }

func (f *fakeLedger) enter(b *fakeBucket, under bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.under == under {
		panic("two round trips at once")
	}
	b.under = under
}

func (f *fakeLedger) Admit(ctx context.Context, c *ledger.Batch) (ledger.Decision, error) {
	b := f.bucket(c.Keys)
	f.enter(b, true)
	defer f.enter(b, false)
	select {
	case <-time.After(f.trip):
	case <-ctx.Done():
		return ledger.Decision{}, ctx.Err()
	}
	n, done := f.calls.Add(1), true
	var err error
	if f.spoil != nil {
		done, err = f.spoil(n)
	}
	if !done {
		return ledger.Decision{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a := ledger.Decision{Now: time.Now().UnixMilli(), Seq: f.calls.Load()}
	var users []int64
	states := make([]byte, c.Len())
	for i := range states {
		user, order := c.Order(i)
		users = append(users, user)
		switch {
		case f.users[user] == order:
			states[i] = ledger.Repeated
		case b.state.Stock > 0:
			b.state.Stock--
			f.users[user] = order
			states[i] = ledger.Accepted
		default:
			states[i] = ledger.SoldOut
		}
	}
	f.batches = append(f.batches, users)
	a.Stock, a.Outcomes = b.state.Stock, string(states)
	return a, err
}

func (f *fakeLedger) States(ctx context.Context, buckets []ledger.Keys) []ledger.State {
	all := make([]ledger.State, len(buckets))
	defer func() {
		for i, keys := range buckets {
			if f.bucket(keys).hangs {
				<-ctx.Done()
				all[i] = ledger.State{Err: ctx.Err(), Heard: time.Now()}
			}
		}
	}()
	if len(f.buckets) > 1 {
		f.readings.Add(1)
		if _, err := f.step(ctx, "state"); err != nil {
			for i := range all {
				all[i].Err = err
			}
			return all
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st, _ := f.store.EpochState(context.Background(), f.store.voucher.ID)
	begin, end := window{from: st.BeginAt, to: st.EndAt}.ms()
	for i, keys := range buckets {
		if all[i] = f.bucket(keys).state; all[i].Err != nil {
			all[i] = ledger.State{Err: all[i].Err, Heard: time.Now()}
			continue
		}
		all[i].Now, all[i].Epoch, all[i].Heard = time.Now().UnixMilli(), st.Epoch, time.Now()
		all[i].Begin, all[i].End = begin, end
		all[i].To, all[i].From = maps.Clone(all[i].To), maps.Clone(all[i].From)
	}
	return all
}

// step is a round trip of a transfer.
func (f *fakeLedger) step(ctx context.Context, name string) (done bool, err error) {
	select {
	case <-time.After(f.trip):
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if f.broken != nil {
		return f.broken(name)
	}
	return true, nil
}

func (f *fakeLedger) Give(ctx context.Context, keys ledger.Keys, _ int64, to int, more bool) (ledger.Transfer, error) {
	done, err := f.step(ctx, "give")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.bucket(keys).state
	if done && more {
		s.To[to] += (s.Stock + 1) / 2
		s.Stock /= 2
	}
	return ledger.Transfer{Amount: s.To[to]}, err
}

func (f *fakeLedger) Return(ctx context.Context, keys ledger.Keys, r order.Return) (ledger.Transfer, error) {
	done, err := f.step(ctx, "return")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.bucket(keys).state
	added := max(0, r.Total-s.Arrived)
	if done {
		s.Stock += added
		s.Arrived += added
		s.Seq++
	}
	return ledger.Transfer{Amount: added, Seq: s.Seq}, err
}

func (f *fakeLedger) Take(ctx context.Context, keys ledger.Keys, _ int64, from int, total int64) (ledger.Transfer, error) {
	done, err := f.step(ctx, "take")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.bucket(keys).state
	taken := max(0, total-s.From[from])
	if done {
		s.Stock += taken
		s.From[from] += taken
	}
	return ledger.Transfer{Amount: taken}, err
}

func (f *fakeLedger) Close(_ context.Context, _ ledger.Keys, epoch int64) (int64, error) {
	return epoch, nil
}
func (f *fakeLedger) Prepare(context.Context, []ledger.Users) error     { return nil }
func (f *fakeLedger) Discard(context.Context, ledger.Keys, int64) error { return nil }
func (f *fakeLedger) Open(context.Context, ledger.Keys, ledger.Opening) (bool, error) {
	return true, nil
}
func (f *fakeLedger) Replicate(context.Context, ledger.Keys, order.Order) (bool, error) {
	return true, nil
}
func (f *fakeLedger) Remove(context.Context, ledger.Keys, int64, bool) (ledger.Removal, error) {
	return ledger.Removal{}, nil
}

// dying is a process that dies during a transfer, between the two steps.
type dyingDuringTransfer struct {
	buckets
	dead atomic.Bool
}

func (d *dyingDuringTransfer) Give(ctx context.Context, keys ledger.Keys, epoch int64, to int, more bool) (ledger.Transfer, error) {
	_, err := d.buckets.Give(ctx, keys, epoch, to, more)
	d.dead.Store(true)
	return ledger.Transfer{}, errors.Join(err, io.EOF)
}

func (d *dyingDuringTransfer) Admit(ctx context.Context, c *ledger.Batch) (ledger.Decision, error) {
	if d.dead.Load() {
		return ledger.Decision{}, io.EOF
	}
	return d.buckets.Admit(ctx, c)
}

func (d *dyingDuringTransfer) States(ctx context.Context, buckets []ledger.Keys) []ledger.State {
	all := d.buckets.States(ctx, buckets)
	for i := range all {
		if d.dead.Load() {
			all[i] = ledger.State{Err: io.EOF}
		}
	}
	return all
}

// unsteady loses half of the replies to transfers, and some of the calls.
type unsteady struct {
	buckets
	mu     sync.Mutex
	chance *rand.Rand
}

func (u *unsteady) fails() (before, after bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.chance.IntN(4) == 0, u.chance.IntN(2) == 0
}

func (u *unsteady) Give(ctx context.Context, keys ledger.Keys, epoch int64, to int, more bool) (ledger.Transfer, error) {
	return u.spoil(func() (ledger.Transfer, error) { return u.buckets.Give(ctx, keys, epoch, to, more) })
}

func (u *unsteady) Take(ctx context.Context, keys ledger.Keys, epoch int64, from int, total int64) (ledger.Transfer, error) {
	return u.spoil(func() (ledger.Transfer, error) { return u.buckets.Take(ctx, keys, epoch, from, total) })
}

func (u *unsteady) spoil(step func() (ledger.Transfer, error)) (ledger.Transfer, error) {
	before, after := u.fails()
	if before {
		return ledger.Transfer{}, io.EOF
	}
	e, err := step()
	if err == nil && after {
		return ledger.Transfer{}, io.EOF
	}
	return e, err
}
