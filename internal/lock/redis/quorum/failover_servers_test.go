package quorum_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/testkit/fail"
)

// A primary and its replica are one of the nodes. A replica that is promoted without the last write grants a key twice
// if it is the only node, and not if two more nodes have the key, whether all have to grant it or a majority.
func TestPromotedReplica(t *testing.T) {
	servers, pair := nodestore.Start(t, 2), nodestore.NewPair(t)
	open := func(need int, clients ...*redis.Client) *quorum.Locker {
		var all []quorum.Client
		for _, c := range clients {
			all = append(all, c)
		}
		l, err := quorum.New("test", need, all, quorum.Config{NodeTimeout: 20 * time.Second})
		fail.NowIf(t, err)
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	alone := func() *quorum.Locker { return open(1, pair.Dial(t)) }
	three := func(need int) *quorum.Locker {
		return open(need, append(nodestore.DialAll(t, servers, nil), pair.Dial(t))...)
	}
	acquire := func(l *quorum.Locker, key string) (lock.Lease, error) {
		return l.Acquire(t.Context(), key, lock.Options{TTL: time.Hour})
	}
	for _, step := range []struct {
		l   *quorum.Locker
		key string
	}{{alone(), "alone"}, {three(2), "majority"}, {three(3), "all"}} {
		fail.NowIf(t, fail.Of(acquire(step.l, step.key)))
	}
	pair.FailOver(t)

	fail.If(t, fail.Of(acquire(alone(), "alone")), "the promoted replica alone, without which this test shows nothing")
	if _, err := acquire(three(2), "majority"); err == nil {
		t.Error("a majority of three nodes, of which one failed over, granted a key twice")
	}
	if _, err := acquire(three(3), "all"); err == nil {
		t.Error("three nodes, of which one failed over, granted a key twice")
	}
}
