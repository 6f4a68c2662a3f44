package multi_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/testkit"
)

const (
	key   = "seat"
	lease = 30 * time.Second
)

// process returns a locker with connections of its own, like a process of its own.
func process(t *testing.T, clients []*redis.Client) *multi.Locker {
	t.Helper()
	l, err := multi.New(nodes(clients), multi.Config{NodeTimeout: patience})
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

func TestOneNodeDownAndNobodyGetsIt(t *testing.T) {
	servers := nodestore.Start(t, 3)
	l := process(t, nodestore.DialAll(t, servers, nil))
	servers[1].Kill()
	_, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: time.Minute})
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), servers[1].Addr()) {
		t.Errorf("Acquire with a node down = %v, want ErrUnavailable that names %s", err, servers[1].Addr())
	}
	servers[1].Restart()
	if err := acquire(t, l, lease).Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestForgetfulNode: one node that forgets does not give a second holder, and the first
// holder is told.
func TestForgetfulNode(t *testing.T) {
	servers := nodestore.Start(t, 3)
	a, b := process(t, nodestore.DialAll(t, servers, nil)), process(t, nodestore.DialAll(t, servers, nil))
	held := acquire(t, a, lease)
	servers[1].Kill()
	servers[1].Restart()
	if _, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire after a node forgot = %v, want ErrNotAcquired", err)
	}
	if err := held.Extend(t.Context(), 0); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("Extend after a node forgot = %v, want ErrExpired", err)
	}
	if cause := context.Cause(held.Context()); !errors.Is(cause, lock.ErrExpired) {
		t.Errorf("the holder was told %v, want ErrExpired", cause)
	}
}

// TestPromotedReplica uses a primary and its replica as one node. A replica that is promoted
// without the last write grants a key twice if it is the only node, and not if two more nodes
// have the key.
func TestPromotedReplica(t *testing.T) {
	servers, pair := nodestore.Start(t, 2), nodestore.NewPair(t)
	alone := func() *multi.Locker { return process(t, []*redis.Client{pair.Dial(t)}) }
	three := func() *multi.Locker {
		return process(t, append(nodestore.DialAll(t, servers, nil), pair.Dial(t)))
	}
	single := acquire(t, alone(), lease)
	const other = "another seat"
	held, err := three().Acquire(t.Context(), other, lock.Options{TTL: lease})
	if err != nil {
		t.Fatal(err)
	}
	pair.FailOver(t)

	acquire(t, alone(), lease)
	if single.Remaining() <= 0 || single.Context().Err() != nil {
		t.Error("the first holder of a single node was told of its loss, so this test shows nothing")
	}
	if _, err := three().Acquire(t.Context(), other, lock.Options{TTL: lease}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire after one of three nodes failed over = %v, want ErrNotAcquired", err)
	}
	if held.Context().Err() != nil {
		t.Error("the holder was told, although it is the only one")
	}
}

// TestStuckClock: one node on which no lease ends keeps everybody from the key, until its
// clock runs again.
func TestStuckClock(t *testing.T) {
	stuck, clock := testkit.NewRedisWithClock(t)
	servers := append(nodestore.Start(t, 2), stuck)
	a, b := process(t, nodestore.DialAll(t, servers, nil)), process(t, nodestore.DialAll(t, servers, nil))
	const lease = time.Second
	clock.Stick()
	lock.Abandon(acquire(t, a, lease))
	if _, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: 4 * lease}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire beside a node whose clock stands still = %v, want ErrNotAcquired", err)
	}
	clock.Jump(0)
	if _, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: 10 * lease}); err != nil {
		t.Errorf("Acquire after the clock went on = %v", err)
	}
}
