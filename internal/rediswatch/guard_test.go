package rediswatch_test

import (
	"errors"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/rediswatch"
	"seckill/internal/testkit/fail"
)

// While its servers may evict keys, no lock is granted under a safe mechanism that keeps its locks in them.
func TestGuardCoversEverySafeLockInRedis(t *testing.T) {
	evicting := func(policy string) *rediswatch.Watch {
		all := servers{}
		w, _ := newWatch(all.client(t, all.add(t, policy), true))
		_ = w.Check(t.Context())
		return w
	}
	for _, guard := range []*rediswatch.Guard{
		{Redis: evicting("allkeys-lru"), Nodes: evicting("noeviction")},
		{Redis: evicting("noeviction"), Nodes: evicting("allkeys-lru")},
	} {
		for _, m := range lock.Catalogue() {
			servers := map[lock.Store]*rediswatch.Watch{lock.InRedis: guard.Redis, lock.InNodes: guard.Nodes}[m.Store]
			refuses := m.Safe && servers != nil && servers.Evicts() != nil
			_, err := guard.Locker(m.Name, local.New()).Acquire(t.Context(), "seat", lock.Options{})
			fail.Unequal(t, errors.Is(err, lock.ErrUnavailable), refuses, "%s is refused with %v", m.Name, err)
		}
	}
}
