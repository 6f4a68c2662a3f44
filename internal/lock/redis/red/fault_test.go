package red_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/red"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
)

const (
	key   = "seat"
	lease = 30 * time.Second
)

var name = redisio.Key("", "red", key, "")

// process returns a locker with connections of its own, like a process of its own.
func process(t *testing.T, servers []*testkit.RedisServer) *red.Locker {
	t.Helper()
	return processOn(t, nodestore.DialAll(t, servers, nil))
}

func processOn(t *testing.T, clients []*redis.Client) *red.Locker {
	t.Helper()
	l, err := red.New(nodes(clients), red.Config{NodeTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func acquire(t *testing.T, l lock.Locker, ttl time.Duration) lock.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, lock.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func mustBeRefused(t *testing.T, l lock.Locker, when string, want error) {
	t.Helper()
	if _, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease}); !errors.Is(err, want) {
		t.Errorf("Acquire %s = %v, want %v", when, err, want)
	}
}

// bothHold checks that there are two holders: neither was told, and both have time left.
func bothHold(t *testing.T, a, b lock.Lease) {
	t.Helper()
	for _, l := range []lock.Lease{a, b} {
		select {
		case <-l.Lost():
			t.Errorf("%s was told: %v", l.Owner(), context.Cause(l.Context()))
		default:
		}
		if l.Remaining() <= 0 {
			t.Errorf("%s has no time left", l.Owner())
		}
	}
}

func put(t *testing.T, server *testkit.RedisServer) {
	t.Helper()
	if err := server.Client(t).Set(t.Context(), name, "x#somebody", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestOneOfThreeMayFail(t *testing.T) {
	servers := nodestore.Start(t, 3)
	l := process(t, servers)

	put(t, servers[0])
	if err := acquire(t, l, lease).Release(t.Context()); err != nil {
		t.Errorf("Release with one node taken = %v", err)
	}
	put(t, servers[1])
	mustBeRefused(t, l, "with two nodes taken", lock.ErrNotAcquired)

	servers[0].Kill()
	mustBeRefused(t, l, "with one node down and one taken", lock.ErrNotAcquired)
	if err := servers[1].Client(t).Del(t.Context(), name).Err(); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, l, lease).Release(t.Context()); err != nil {
		t.Errorf("Release with one node down = %v", err)
	}
	servers[1].Kill()
	mustBeRefused(t, l, "with two nodes down", lock.ErrUnavailable)
}

// TestForgetfulNode: a node that voted and restarts empty votes a second time.
func TestForgetfulNode(t *testing.T) {
	servers := nodestore.Start(t, 3)
	a, b := process(t, servers), process(t, servers)
	servers[2].Kill()
	first := acquire(t, a, lease) // the first two nodes
	servers[2].Restart()
	servers[1].Kill()
	servers[1].Restart() // empty
	second := acquire(t, b, lease)
	bothHold(t, first, second)
}

// TestDelayedRestart shows the remedy: a node that may have forgotten stays away for as long
// as the longest lease.
func TestDelayedRestart(t *testing.T) {
	servers := nodestore.Start(t, 3)
	a, b := process(t, servers), process(t, servers)
	const lease = time.Second
	servers[2].Kill()
	first := acquire(t, a, lease)
	servers[2].Restart()
	servers[1].Kill()
	for first.Remaining() > 0 {
		held, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease})
		if err == nil && first.Remaining() > 0 {
			t.Fatal("two holders, although the node that voted stayed away")
		}
		if err == nil {
			_ = held.Release(t.Context())
		}
	}
	servers[1].Restart()
	second, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: lease})
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Release(t.Context())
}

// TestPromotedReplica uses a primary with a replica as one of the nodes, and promotes the
// replica without the last write.
func TestPromotedReplica(t *testing.T) {
	servers, pair := nodestore.Start(t, 2), nodestore.NewPair(t)
	clients := func() []*redis.Client { return append(nodestore.DialAll(t, servers, nil), pair.Dial(t)) }
	a, b := processOn(t, clients()), processOn(t, clients())
	held := acquire(t, a, lease)
	pair.FailOver(t)
	if free := b.InspectNodes(t.Context(), key)[2]; free.Owner != "" || free.Err != nil {
		t.Fatalf("the replica says %+v, so this shows nothing", free)
	}
	mustBeRefused(t, b, "after one of three nodes failed over", lock.ErrNotAcquired)
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("Release after one of three nodes failed over = %v", err)
	}
}

// TestJumpingClocks lets the clocks of nodes jump past the lease.
func TestJumpingClocks(t *testing.T) {
	servers, clocks := clocked(t, 2)
	a, b := process(t, servers), process(t, servers)
	first := acquire(t, a, lease)
	clocks[0].Jump(2 * lease)
	mustBeRefused(t, b, "after one of three clocks jumped", lock.ErrNotAcquired)
	clocks[1].Jump(2 * lease)
	second := acquire(t, b, lease)
	bothHold(t, first, second)
}

// TestStuckClock lets a key stay for ever on one node.
func TestStuckClock(t *testing.T) {
	servers, clocks := clocked(t, 1)
	a, b := process(t, servers), process(t, servers)
	const lease = time.Second
	clocks[0].Stick()
	lock.Abandon(acquire(t, a, lease))
	held, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: 10 * lease})
	if err != nil {
		t.Fatalf("Acquire beside a node whose clock stands still = %v", err)
	}
	if state := b.InspectNodes(t.Context(), key); state[0].Owner == held.Owner() || state[0].Owner == "" {
		t.Errorf("the node whose clock stands still has %q, want the holder that died", state[0].Owner)
	}
}

// clocked starts three nodes, the first n of them with a clock that can be moved.
func clocked(t *testing.T, n int) ([]*testkit.RedisServer, []*testkit.Clock) {
	t.Helper()
	servers, clocks := make([]*testkit.RedisServer, n), make([]*testkit.Clock, n)
	for i := range servers {
		servers[i], clocks[i] = testkit.NewRedisWithClock(t)
	}
	return append(servers, nodestore.Start(t, 3-n)...), clocks
}
