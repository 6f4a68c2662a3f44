package session_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// However many goroutines wait for a key, only one of them asks Redis.
func TestLineCostsOneWaiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		client := server.Client(t)
		config := session.Config{QueueEntryTTL: time.Minute} // the head asks again after a third of it
		holder, l := start(t, server, newReentrant, config), start(t, server, newReentrant, config)
		held := acquire(t.Context(), t, holder, lock.Options{})
		var order []int
		var waiters sync.WaitGroup
		wait := func(i int) {
			waiters.Go(func() {
				lease, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, i) // guarded by the lock itself
				fail.If(t, lease.Release(t.Context()))
			})
			until(t, "the waiter in line", func() bool { return inspect(t, l).Waiting == i+1 })
		}
		wait(0)
		until(t, "the head to settle", func() bool { return len(client.PubSubChannels(t.Context(), "*").Val()) == 1 })
		const more = 30
		var asked atomic.Int64
		server.Refuse(func(command string, _ ...string) string {
			if command == "HGET" { // acquire.lua alone runs it, once an attempt
				asked.Add(1)
			}
			return ""
		})
		for i := range more {
			wait(i + 1)
		}
		if asked := asked.Load(); asked > 2 {
			t.Errorf("%d more waiters asked Redis for the lock %d times", more, asked)
		}
		fail.NowIf(t, held.Release(t.Context()))
		waiters.Wait()
		for i, who := range order {
			if i != who {
				t.Fatalf("served in the order %v, want that of arrival", order)
			}
		}
	})
}

// A pub/sub connection that breaks costs a reconnection, not a lease.
func TestSubscriptionIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		client := server.Client(t)
		holder := start(t, server, newReentrant, session.Config{})
		l := start(t, server, newReentrant, session.Config{WatchdogTimeout: 30 * time.Second, RetryEvery: 20 * time.Millisecond})
		subscribers := func() int64 {
			return int64(len(client.PubSubChannels(t.Context(), redisio.Key("", "reentrant", key, "*")).Val()))
		}
		held := acquire(t.Context(), t, holder, lock.Options{})
		got := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
			if err == nil {
				err = lease.Release(t.Context())
			}
			got <- err
		}()
		until(t, "a subscription", func() bool { return subscribers() == 1 })
		for range 3 {
			server.Stop() // ends every connection
			server.Start()
			until(t, "a new subscription", func() bool { return subscribers() == 1 })
		}
		fail.NowIf(t, held.Release(t.Context()))
		select {
		case err := <-got:
			fail.If(t, err)
		case <-time.After(time.Minute):
			t.Error("the waiter missed the release")
		}
	})
}

// A waiter keeps asking for a key without an expiry, which another program removed.
func TestHolderWithoutExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, prefix := simulate.NewRedis(t), "t:"
		client := server.Client(t)
		l := start(t, server, newReentrant, session.Config{Prefix: prefix, RetryEvery: 50 * time.Millisecond})
		name := redisio.Key(prefix, "reentrant", key, "")
		lock.Abandon(acquire(t.Context(), t, l, lock.Options{TTL: time.Minute}))
		fail.NowIf(t, client.Persist(t.Context(), name).Err())
		_, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Second})
		if refused, ok := errors.AsType[*lock.NotAcquiredError](err); !ok || refused.TTL != lock.NoExpiry {
			t.Errorf("Acquire = %v, want a holder without an end", err)
		}
		time.AfterFunc(100*time.Millisecond, func() { client.Del(context.Background(), name) })
		began := time.Now()
		lease := acquire(t.Context(), t, l, lock.Options{Wait: 10 * time.Second})
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the waiter needed %v", took)
		}
		fail.If(t, lease.Release(t.Context()))
	})
}

// An owner that re-enters does not queue behind waiters that wait for it.
func TestReentryPassesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := start(t, simulate.NewRedis(t), newReentrant, session.Config{Prefix: "t:"})
		ctx := lock.WithOwner(t.Context(), "me")
		outer := acquire(ctx, t, l, lock.Options{})
		got := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
			if err == nil {
				err = lease.Release(t.Context())
			}
			got <- err
		}()
		until(t, "a waiter", func() bool { return inspect(t, l).Waiting == 1 })
		inner := acquire(ctx, t, l, lock.Options{Wait: time.Minute})
		for _, lease := range []lock.Lease{inner, outer} {
			fail.If(t, lease.Release(t.Context()))
		}
		fail.If(t, <-got)
	})
}
