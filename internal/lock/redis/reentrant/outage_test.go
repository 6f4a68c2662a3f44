package reentrant_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/testkit"
)

// A server that hangs holds up no caller, even if the client does not end its commands with
// their context. What the server grants when it continues is released.
func TestServerThatHangs(t *testing.T) {
	server := testkit.NewRedis(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	l := startOn(t, client, reentrant.Config{CommandTimeout: time.Second})
	if err := acquire(t.Context(), t, l, lock.Options{}).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Pause()
	began := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, key, lock.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire with 100 ms = %v, want the context's error", err)
	}
	if took := time.Since(began); took > 10*time.Second { // the server hangs for longer
		t.Errorf("it took %v", took)
	}
	began = time.Now()
	if _, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute}); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
	if took := time.Since(began); took > 20*time.Second { // the wait is a minute
		t.Errorf("it took %v to find that the server hangs", took)
	}
	server.Resume()
	testkit.Until(t, "a free lock", func() bool { state, err := l.Inspect(t.Context(), key); return err == nil && state.Owner == "" })
}

func TestServerThatDies(t *testing.T) {
	server := testkit.NewRedis(t)
	l := start(t, server, reentrant.Config{WatchdogTimeout: renewed})
	lease := acquire(t.Context(), t, l, lock.Options{})
	server.Kill()
	told(t, lease, 2*renewed, lock.ErrUnavailable)
	began := time.Now()
	if _, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute}); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
	if took := time.Since(began); took > 20*time.Second { // the wait is a minute
		t.Errorf("it took %v to find that there is no server", took)
	}
	server.Restart()
	testkit.Until(t, "a lock from the new server", func() bool {
		again, err := l.Acquire(t.Context(), key, lock.Options{})
		return err == nil && again.Release(t.Context()) == nil
	})
}

func TestCluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), ContextTimeoutEnabled: true})
	l := startOn(t, client, reentrant.Config{WatchdogTimeout: renewed})
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} { // on all three nodes
		held, err := l.Acquire(t.Context(), name, lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), name, lock.Options{Wait: time.Minute})
			if err == nil {
				err = lease.Release(t.Context())
			}
			got <- err
		}()
		testkit.Until(t, "a subscription", func() bool {
			var found atomic.Bool
			_ = client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
				if len(node.PubSubChannels(ctx, "*:{"+name+"}:*").Val()) > 0 {
					found.Store(true)
				}
				return nil
			})
			return found.Load()
		})
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-got:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(renewed / 2):
			t.Errorf("the waiter for %q missed the message", name)
		}
	}
}

// The scripts also run on the embedded server that the service falls back to.
func TestMiniredis(t *testing.T) {
	mini := miniredis.RunT(t)
	l := startOn(t, redis.NewClient(&redis.Options{Addr: mini.Addr()}), reentrant.Config{})
	ctx := lock.WithOwner(t.Context(), "me")
	outer, inner := acquire(ctx, t, l, lock.Options{}), acquire(ctx, t, l, lock.Options{TTL: time.Minute})
	if state := inspect(t, l); state.Owner != "me" || state.Count != 2 {
		t.Errorf("Inspect = %+v, want me twice", state)
	}
	_, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Second}) // longer than a busy machine takes to answer
	if refused, ok := errors.AsType[*lock.NotAcquiredError](err); !ok || refused.Holder != "me" {
		t.Errorf("Acquire of a taken key = %v", err)
	}
	for _, lease := range []lock.Lease{outer, inner} {
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if keys := mini.Keys(); len(keys) > 0 {
		t.Errorf("%v are left", keys)
	}
}
