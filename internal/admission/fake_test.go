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

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// fakeServer is Redis in a synctest bubble: an open voucher and round trips that take a
// while.
type fakeServer struct {
	shelf *shelf
	trip  time.Duration

	mu      sync.Mutex
	batches [][]int64 // user ids
	buckets []fakeBucket
	users   map[int64]int64
	calls   atomic.Int64 // of decide
	looks   atomic.Int64
	// spoil says what becomes of a call: done is whether it is carried out.
	spoil func(n int64) (done bool, err error)
	// broken says what becomes of a draw's step, as spoil does.
	broken func(step string) (done bool, err error)
}

type fakeBucket struct {
	keys  admkey.Keys
	state state // with the reason why it cannot be had
	under bool  // a round trip is
	hangs bool  // looks have no answer
}

func newFakeServer(sh *shelf, stock int64) *fakeServer {
	f := &fakeServer{shelf: sh, trip: time.Millisecond, users: map[int64]int64{}}
	f.buckets = make([]fakeBucket, sh.voucher.Policy.Parts())
	for i := range f.buckets {
		f.buckets[i] = fakeBucket{
			keys:  admkey.Of("", sh.voucher.ID, i),
			state: state{to: map[int]int64{}, from: map[int]int64{}},
		}
	}
	f.buckets[0].state.stock = stock
	return f
}

func (f *fakeServer) bucket(keys admkey.Keys) *fakeBucket {
	for i := range f.buckets {
		if f.buckets[i].keys == keys {
			return &f.buckets[i]
		}
	}
	panic("unknown keys")
}

// stock is that of bucket 0.
func (f *fakeServer) stock() *int64 { return &f.buckets[0].state.stock }

func (f *fakeServer) enter(b *fakeBucket, under bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b.under == under {
		panic("two round trips at once")
	}
	b.under = under
}

func (f *fakeServer) decide(ctx context.Context, c *call) (answer, error) {
	b := f.bucket(c.keys)
	f.enter(b, true)
	defer f.enter(b, false)
	select {
	case <-time.After(f.trip):
	case <-ctx.Done():
		return answer{}, ctx.Err()
	}
	n, done := f.calls.Add(1), true
	var err error
	if f.spoil != nil {
		done, err = f.spoil(n)
	}
	if !done {
		return answer{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	a := answer{now: time.Now().UnixMilli(), seq: f.calls.Load()}
	var users []int64
	states := make([]byte, len(c.batch))
	for i, r := range c.batch {
		users = append(users, r.userID)
		switch {
		case f.users[r.userID] == r.orderID:
			states[i] = repeated
		case b.state.stock > 0:
			b.state.stock--
			f.users[r.userID] = r.orderID
			states[i] = accepted
		default:
			states[i] = soldOut
		}
	}
	f.batches = append(f.batches, users)
	a.stock, a.states = b.state.stock, string(states)
	return a, err
}

func (f *fakeServer) states(ctx context.Context, buckets []admkey.Keys) []state {
	all := make([]state, len(buckets))
	defer func() {
		for i, keys := range buckets {
			if f.bucket(keys).hangs {
				<-ctx.Done()
				all[i] = state{err: ctx.Err(), heard: time.Now()}
			}
		}
	}()
	if len(f.buckets) > 1 {
		f.looks.Add(1)
		if _, err := f.step(ctx, "look"); err != nil {
			for i := range all {
				all[i].err = err
			}
			return all
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	st, _ := f.shelf.Standing(context.Background(), f.shelf.voucher.ID)
	for i, keys := range buckets {
		if all[i] = f.bucket(keys).state; all[i].err != nil {
			all[i] = state{err: all[i].err, heard: time.Now()}
			continue
		}
		all[i].now, all[i].epoch, all[i].heard = time.Now().UnixMilli(), st.Epoch, time.Now()
		all[i].to, all[i].from = maps.Clone(all[i].to), maps.Clone(all[i].from)
	}
	return all
}

// step is a round trip of a draw.
func (f *fakeServer) step(ctx context.Context, name string) (done bool, err error) {
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

func (f *fakeServer) give(ctx context.Context, keys admkey.Keys, _ int64, to int, more bool) (entry, error) {
	done, err := f.step(ctx, "give")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.bucket(keys).state
	if done && more {
		s.to[to] += (s.stock + 1) / 2
		s.stock /= 2
	}
	return entry{amount: s.to[to]}, err
}

func (f *fakeServer) take(ctx context.Context, keys admkey.Keys, _ int64, from int, total int64) (entry, error) {
	done, err := f.step(ctx, "take")
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.bucket(keys).state
	taken := max(0, total-s.from[from])
	if done {
		s.stock += taken
		s.from[from] += taken
	}
	return entry{amount: taken}, err
}

func (f *fakeServer) shut(_ context.Context, _ admkey.Keys, epoch int64) (int64, error) {
	return epoch, nil
}
func (f *fakeServer) fill(context.Context, []users) error                    { return nil }
func (f *fakeServer) begin(context.Context, admkey.Keys, part) (bool, error) { return true, nil }
func (f *fakeServer) kept(context.Context, admkey.Keys, order.Order) (bool, error) {
	return true, nil
}

// dying is a process that dies at a draw, after it has been given something and before
// it takes it in.
type dying struct {
	decider
	dead atomic.Bool
}

func (d *dying) give(ctx context.Context, keys admkey.Keys, epoch int64, to int, more bool) (entry, error) {
	_, err := d.decider.give(ctx, keys, epoch, to, more)
	d.dead.Store(true)
	return entry{}, errors.Join(err, io.EOF)
}

func (d *dying) decide(ctx context.Context, c *call) (answer, error) {
	if d.dead.Load() {
		return answer{}, io.EOF
	}
	return d.decider.decide(ctx, c)
}

func (d *dying) states(ctx context.Context, buckets []admkey.Keys) []state {
	all := d.decider.states(ctx, buckets)
	for i := range all {
		if d.dead.Load() {
			all[i] = state{err: io.EOF}
		}
	}
	return all
}

// unsteady loses half of the replies of draws, and some of the calls.
type unsteady struct {
	decider
	mu     sync.Mutex
	chance *rand.Rand
}

func (u *unsteady) fails() (before, after bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.chance.IntN(4) == 0, u.chance.IntN(2) == 0
}

func (u *unsteady) give(ctx context.Context, keys admkey.Keys, epoch int64, to int, more bool) (entry, error) {
	return u.spoil(func() (entry, error) { return u.decider.give(ctx, keys, epoch, to, more) })
}

func (u *unsteady) take(ctx context.Context, keys admkey.Keys, epoch int64, from int, total int64) (entry, error) {
	return u.spoil(func() (entry, error) { return u.decider.take(ctx, keys, epoch, from, total) })
}

func (u *unsteady) spoil(step func() (entry, error)) (entry, error) {
	before, after := u.fails()
	if before {
		return entry{}, io.EOF
	}
	e, err := step()
	if err == nil && after {
		return entry{}, io.EOF
	}
	return e, err
}
