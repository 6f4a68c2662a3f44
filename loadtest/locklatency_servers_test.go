package loadtest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/red"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

const (
	// Each lock is measured in turn with the others, this often.
	latencyRounds = 3
	// latencyPairs is how many acquisitions and releases a round has.
	latencyPairs = 100
	// latencyWaiters want one key at the same time, and hold it for latencyHold.
	latencyWaiters = 8
	latencyHold    = time.Millisecond
)

// BenchmarkLockLatency measures how long one goroutine takes to acquire and release a key that nobody else wants, and
// how often a key that eight goroutines want changes hands in a second, under every mechanism. It prints a Markdown
// table.
func BenchmarkLockLatency(b *testing.B) {
	set := openLocks(b)
	alone, handovers := map[string][]time.Duration{}, map[string][]float64{}
	names := slices.DeleteFunc(set.Names(), func(name string) bool { return name == "uuid-wrong-key" }) // never releases
	for b.Loop() {
		for range latencyRounds {
			for _, name := range names {
				l, err := set.Locker(name)
				fail.NowIf(b, err)
				alone[name] = append(alone[name], uncontended(b, name, l)...)
				if name != "none" {
					handovers[name] = append(handovers[name], contended(b, name, l))
				}
			}
		}
	}
	var table strings.Builder
	table.WriteString("\n| lock | alone: p50 | p99 | contended: grants/s |\n|---|---:|---:|---:|\n")
	for _, name := range names {
		all := slices.Sorted(slices.Values(alone[name]))
		p50, p99 := all[len(all)/2].Round(time.Microsecond), all[len(all)*99/100].Round(time.Microsecond)
		fmt.Fprintf(&table, "| `%s` | %v | %v |", name, p50, p99)
		if rates := handovers[name]; len(rates) > 0 {
			fmt.Fprintf(&table, " %.0f (%.0f to %.0f)", median(rates), slices.Min(rates), slices.Max(rates))
		}
		table.WriteString(" |\n")
	}
	fmt.Print(table.String()) // a log of a benchmark is cut after ten lines
}

// uncontended is how long each of the pairs took, after one that does not count.
func uncontended(b *testing.B, name string, l lock.Locker) (took []time.Duration) {
	b.Helper()
	for i := range latencyPairs + 1 {
		start := time.Now()
		lease, err := l.Acquire(b.Context(), "alone", lock.Options{TTL: leaseOf(name)})
		if err == nil {
			err = lease.Release(b.Context())
		}
		fail.NowIf(b, err, "%s", name)
		if i > 0 {
			took = append(took, time.Since(start))
		}
	}
	return took
}

// contended is how many grants a second there were while all waiters wanted the key.
func contended(b *testing.B, name string, l lock.Locker) float64 {
	b.Helper()
	var all sync.WaitGroup
	start := time.Now()
	for range latencyWaiters {
		all.Go(func() {
			for range latencyPairs / latencyWaiters {
				lease, err := l.Acquire(b.Context(), "contended", lock.Options{Wait: time.Minute, TTL: leaseOf(name)})
				if err != nil {
					b.Errorf("%s: %v", name, err)
					return
				}
				time.Sleep(latencyHold)
				fail.If(b, lease.Release(b.Context()), "%s", name)
			}
		})
	}
	all.Wait()
	return float64(latencyPairs/latencyWaiters*latencyWaiters) / time.Since(start).Seconds()
}

// leaseOf is long where a lock has a lease that nothing renews.
func leaseOf(name string) time.Duration {
	switch name {
	case "setnx-expire", "naive", "thread-id", "uuid", "lua":
		return time.Minute
	}
	return 0
}

// openLocks opens every mechanism on servers of its own kind: one Redis, three more for multi and red, MariaDB and
// ZooKeeper.
func openLocks(b *testing.B) *lockers.Set {
	b.Helper()
	db, err := database.Open(b.Context(), database.Config{MySQL: testkit.MariaDB(b).DSN})
	fail.NowIf(b, err)
	b.Cleanup(func() { _ = db.Close() })
	fail.NowIf(b, fail.Of(db.Migrate(b.Context())))
	var nodes []red.Client
	for range red.MinNodes {
		nodes = append(nodes, lockClient(b))
	}
	set, err := lockers.Open(lockers.Servers{
		Redis: lockClient(b), Nodes: nodes, MySQL: db.LockPool(), Rows: db.RowPool(),
		ZooKeeper: []string{testkit.ZooKeeper(b).Addr()},
	}, lockers.Config{Prefix: testkit.KeyPrefix(b), NodeTimeout: time.Second})
	fail.NowIf(b, err)
	b.Cleanup(func() {
		fail.If(b, set.Close())
	})
	return set
}

// lockClient is a client of a redis-server of its own, which cuts commands at their deadline.
func lockClient(b *testing.B) *redis.Client {
	b.Helper()
	client := redis.NewClient(&redis.Options{Addr: testkit.NewRedis(b).Addr(), ContextTimeoutEnabled: true})
	b.Cleanup(func() { _ = client.Close() })
	return client
}
