package reentrant_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/testkit"
)

// BenchmarkUncontended acquires and releases with 64 goroutines, each on keys of
// its own, against one redis-server. An operation is a pair.
func BenchmarkUncontended(b *testing.B) {
	locker := benchLocker(b)
	each(b, 64, func(g int) {
		lease, err := locker.Acquire(b.Context(), fmt.Sprintf("seat-%d", g), lock.Options{})
		if err != nil {
			b.Error(err)
			return
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Error(err)
		}
	})
}

// BenchmarkContended lets 64 goroutines of one process wait for one key. An
// operation is a grant.
func BenchmarkContended(b *testing.B) {
	locker := benchLocker(b)
	each(b, 64, func(int) {
		lease, err := locker.Acquire(b.Context(), "seat", lock.Options{Wait: time.Minute})
		if err != nil {
			b.Error(err)
			return
		}
		if err := lease.Release(b.Context()); err != nil {
			b.Error(err)
		}
	})
}

// each spreads b.N operations over workers.
func each(b *testing.B, workers int, do func(worker int)) {
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for g := range workers {
		share := b.N / workers
		if g < b.N%workers {
			share++
		}
		all.Go(func() {
			for range share {
				do(g)
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

func benchLocker(b *testing.B) *reentrant.Locker {
	b.Helper()
	client := redis.NewClient(&redis.Options{Addr: testkit.Redis(b).Addr(), ContextTimeoutEnabled: true})
	b.Cleanup(func() { _ = client.Close() })
	locker, err := reentrant.New(client, reentrant.Config{Prefix: testkit.KeyPrefix(b)})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = locker.Close() })
	return locker
}
