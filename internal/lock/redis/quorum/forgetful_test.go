package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// bothHold checks that there are two holders: neither was told, and both have time left.
func bothHold(t *testing.T, a, b lock.Lease) {
	t.Helper()
	for _, l := range []lock.Lease{a, b} {
		if err := l.Context().Err(); err != nil || l.Remaining() <= 0 {
			t.Errorf("%s was told %v, with %v left", l.Owner(), context.Cause(l.Context()), l.Remaining())
		}
	}
}

func TestTakenAndDeadNodes(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		servers.put(t, 0)
		if need == 3 {
			mustBeRefused(t, l, "with one node taken", lock.ErrNotAcquired)
			servers[0].Mini().Del(name)
			servers[1].Stop()
			mustBeRefused(t, l, "with one node down", lock.ErrUnavailable)
			servers[1].Start()
			fail.If(t, acquire(t, l, lock.Options{TTL: lease}).Release(t.Context()), "Release after the node came back")
			return
		}
		fail.If(t, acquire(t, l, lock.Options{TTL: lease}).Release(t.Context()), "Release with one node taken")
		servers.put(t, 1)
		mustBeRefused(t, l, "with two nodes taken", lock.ErrNotAcquired)
		servers[0].Stop()
		mustBeRefused(t, l, "with one node down and one taken", lock.ErrNotAcquired)
		servers[1].Mini().Del(name)
		fail.If(t, acquire(t, l, lock.Options{TTL: lease}).Release(t.Context()), "Release with one node down")
		servers[1].Stop()
		mustBeRefused(t, l, "with two nodes down", lock.ErrUnavailable)
	})
}

// A node that voted and restarts empty votes a second time: of a majority, one is enough for two holders. All nodes do
// not grant a second holder, and the first one is told.
func TestForgetfulNode(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		a, b := process(t, servers, need, quorum.Config{}), process(t, servers, need, quorum.Config{})
		if need == 2 {
			servers[2].Stop()
			first := acquire(t, a, lock.Options{TTL: lease}) // the first two nodes
			servers[2].Start()
			servers[1].RestartEmpty()
			bothHold(t, first, acquire(t, b, lock.Options{TTL: lease}))
			return
		}
		held := acquire(t, a, lock.Options{TTL: lease})
		servers[1].RestartEmpty()
		mustBeRefused(t, b, "after a node forgot", lock.ErrNotAcquired)
		fail.Unless(t, held.Extend(t.Context(), 0), lock.ErrExpired, "Extend after a node forgot")
		fail.Unless(t, context.Cause(held.Context()), lock.ErrExpired, "the holder")
	})
}

// The remedy: a node that may have forgotten stays away for as long as the longest lease.
func TestDelayedRestart(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		if need == 3 {
			return
		}
		a, b := process(t, servers, need, quorum.Config{}), process(t, servers, need, quorum.Config{})
		servers[2].Stop()
		first := acquire(t, a, lock.Options{TTL: lease})
		servers[2].Start()
		servers[1].Stop()
		for first.Remaining() > 0 {
			mustBeRefused(t, b, "while the node that voted stays away", lock.ErrNotAcquired)
			simulate.Sleep(lease / 3)
		}
		servers[1].RestartEmpty()
		fail.NowIf(t, fail.Of(b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: lease})))
	})
}

// Clocks of nodes jump past the lease: one of a majority may, two give two holders.
func TestJumpingClocks(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		a, b := process(t, servers, need, quorum.Config{}), process(t, servers, need, quorum.Config{})
		first := acquire(t, a, lock.Options{TTL: lease})
		for i := range need - 1 {
			servers[i].Mini().FastForward(2 * lease)
			mustBeRefused(t, b, "after too few clocks jumped", lock.ErrNotAcquired)
		}
		servers[need-1].Mini().FastForward(2 * lease)
		bothHold(t, first, acquire(t, b, lock.Options{TTL: lease}))
	})
}

// A key stays for ever on one node: a majority goes on without it, all nodes wait until its clock runs again.
func TestStuckClock(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		a, b := process(t, servers, need, quorum.Config{}), process(t, servers, need, quorum.Config{})
		const lease = time.Second
		dead := acquire(t, a, lock.Options{TTL: lease})
		lock.Abandon(dead)
		servers[0].Mini().SetTTL(name, 10*lease)
		held, err := b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: 4 * lease})
		if (err == nil) != (need == 2) || err != nil && !errors.Is(err, lock.ErrNotAcquired) {
			t.Fatalf("Acquire beside a node whose clock stands still = %v", err)
		}
		if need == 2 {
			if stuck := b.InspectNodes(t.Context(), key)[0].Owner; stuck != dead.Owner() || stuck == held.Owner() {
				t.Errorf("the node whose clock stands still has %q, want the holder that died", stuck)
			}
			return
		}
		fail.If(t, fail.Of(b.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: 10 * lease})), "Acquire after the clock went on")
	})
}
