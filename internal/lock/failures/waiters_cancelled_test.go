package failures_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/rw"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

// waitersCancelled: a thousand waiters of one process give up at once and leave
// nothing: no key, no channel, no goroutine. While they wait, one connection hears
// for all of them.
func waitersCancelled(t *testing.T, r *report) {
	for _, mechanism := range strong {
		t.Run(mechanism, func(t *testing.T) { cancelWaiters(t, r, mechanism) })
	}
}

func cancelWaiters(t *testing.T, r *report, mechanism string) {
	const waiters = 1000
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	// A thousand commands at once may take a busy machine longer than the defaults
	// allow, and then waiters are told that the server is unavailable.
	config := session.Config{Prefix: prefix, WatchdogTimeout: long, CommandTimeout: long}
	admin := server.Client(t)
	dial := func(name string) *redis.Client {
		c := redis.NewClient(&redis.Options{Addr: server.Addr(), ClientName: name, ContextTimeoutEnabled: true})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	held := acquire(t, process(t, mechanism, dial("holder"), config), key)
	l := process(t, mechanism, dial("waiters"), config)
	sides := []lock.Locker{l}
	if both, ok := l.(*rw.Locker); ok {
		sides = []lock.Locker{both.Writer(), both.Reader()}
	}
	// One that gives up first opens what stays open: the connections.
	if _, err := l.Acquire(t.Context(), key, lock.Options{Wait: 50 * time.Millisecond}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Fatalf("Acquire = %v, want ErrNotAcquired", err)
	}
	nothingWaits(t, admin, prefix)
	keys, goroutines := keysOf(t, admin, prefix), runtime.NumGoroutine()

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told := make(chan error, waiters)
	var all sync.WaitGroup
	for i := range waiters {
		all.Go(func() {
			_, err := sides[i%len(sides)].Acquire(ctx, key, lock.Options{Wait: time.Minute})
			told <- err
		})
	}
	seen := 0
	defer func() {
		if t.Failed() {
			t.Logf("%d were last seen to wait", seen)
		}
	}()
	until(t, "all to wait", func() bool {
		select {
		case err := <-told:
			t.Fatalf("a waiter that was to wait was told %v", err)
		default:
		}
		state, err := l.(lock.Inspector).Inspect(t.Context(), key)
		seen = state.Waiting
		return err == nil && seen == waiters
	})
	hearing, talking := connections(t, admin, "waiters")
	if hearing != 1 || talking > config.WithDefaults().Pipelines+1 {
		t.Errorf("%d waiters have %d pub/sub connections and %d others, want 1 and a few", waiters, hearing, talking)
	}
	began := time.Now()
	cancel()
	all.Wait()
	close(told)
	for err := range told {
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("a cancelled waiter was told %v", err)
		}
	}
	nothingWaits(t, admin, prefix)
	until(t, "the goroutines to end", func() bool { return runtime.NumGoroutine() <= goroutines })
	until(t, "the keys of the waiters to go", func() bool { return slices.Equal(keysOf(t, admin, prefix), keys) })
	took := time.Since(began)
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	left := slices.DeleteFunc(keysOf(t, admin, prefix), func(k string) bool { return strings.HasSuffix(k, ":token") })
	if len(left) > 0 {
		t.Errorf("%v are left", left)
	}
	r.saw("1,000 waiters cancelled", mechanism, took, "no key, no channel, no goroutine is left; %d pub/sub connection, %d others", hearing, talking)
}

// nothingWaits waits until nobody is subscribed to a channel of the test.
func nothingWaits(t *testing.T, admin *redis.Client, prefix string) {
	t.Helper()
	until(t, "no channel", func() bool { return len(admin.PubSubChannels(t.Context(), prefix+"*").Val()) == 0 })
}

func keysOf(t *testing.T, admin *redis.Client, prefix string) []string {
	t.Helper()
	keys, err := admin.Keys(t.Context(), prefix+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

// connections counts those of a client by what they are there for.
func connections(t *testing.T, admin *redis.Client, client string) (hearing, talking int) {
	t.Helper()
	list, err := admin.ClientList(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(list) {
		switch {
		case !strings.Contains(line, " name="+client+" "):
		case strings.Contains(line, " sub=0 "):
			talking++
		default:
			hearing++
		}
	}
	return hearing, talking
}
