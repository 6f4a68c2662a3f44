package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
)

// countingContext is a context that never ends and counts the functions that wait for its
// end. Package context calls the AfterFunc of a context that has one.
type countingContext struct {
	context.Context
	done chan struct{}

	mu      sync.Mutex
	waiting map[int]func()
	next    int
}

func newCountingContext(ctx context.Context) *countingContext {
	return &countingContext{Context: ctx, done: make(chan struct{}), waiting: make(map[int]func())}
}

// Done is not the parent's. Otherwise package context would bypass AfterFunc.
func (c *countingContext) Done() <-chan struct{} { return c.done }

// AfterFunc registers f.
func (c *countingContext) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := c.next
	c.next++
	c.waiting[id] = f
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, was := c.waiting[id]
		delete(c.waiting, id)
		return was
	}
}

func (c *countingContext) count() (registered, left int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next, len(c.waiting)
}

// A lease that was received, and then released or lost, leaves no function on the context of
// its acquisition, which may be that of the whole process.
func TestAsyncLeavesNothingOnItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := newCountingContext(t.Context())
		for i := range 10 {
			r := <-lock.Async(ctx, heldAtOnce{}, "seat", lock.Options{})
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if i%2 == 1 {
				r.Lease.(*lock.Held).Lose(lock.ErrLost)
			} else if err := r.Lease.Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait() // Async registers after it has delivered the result
		if registered, left := ctx.count(); registered < 10 || left > 0 {
			t.Errorf("%d of %d functions still wait for the end of the context", left, registered)
		}
	})
}

// A lease that was lost before it was received is released at the end of its context like
// every other: one of several nodes may still have it.
func TestAsyncReleasesLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var g grant
		h := g.hold(ctx, time.Time{})
		results := lock.Async(ctx, granted{h}, "seat", lock.Options{})
		synctest.Wait()
		h.Lose(lock.ErrLost)
		synctest.Wait()
		cancel()
		synctest.Wait()
		g.mustHave(t, 1, 1)
		if r := <-results; r.Lease != nil || !errors.Is(r.Err, context.Canceled) {
			t.Errorf("the result is %v, %v; want the error of the context", r.Lease, r.Err)
		}
	})
}

// heldAtOnce grants every acquisition.
type heldAtOnce struct{}

// Acquire implements [lock.Locker].
func (heldAtOnce) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	return lock.NewHeld(ctx, lock.Grant{Key: key, Release: func(context.Context) error { return nil }}), nil
}

// granted grants one lease.
type granted struct{ *lock.Held }

// Acquire implements [lock.Locker].
func (g granted) Acquire(context.Context, string, lock.Options) (lock.Lease, error) {
	return g.Held, nil
}
