package session_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A message wakes a waiter, whichever node its key is on.
func TestCluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), ContextTimeoutEnabled: true})
	l := startOn(t, client, session.Config{QueueEntryTTL: 5 * time.Minute})
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} { // on all three nodes
		held, err := l.Acquire(t.Context(), name, lock.Options{})
		fail.NowIf(t, err)
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
		fail.NowIf(t, held.Release(t.Context()))
		select {
		case err := <-got:
			fail.If(t, err)
		case <-time.After(time.Minute):
			t.Errorf("the waiter for %q missed the message", name)
		}
	}
}
