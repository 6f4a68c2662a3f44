package failures_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/session"
	"seckill/internal/testkit"
)

// serverRestartedEmpty: SIGKILL of a redis-server that stores nothing on disk. A waiter gets
// the lock from the new server. A watchdog tells the first holder at its next renewal;
// without a watchdog there are two holders, and at most the release tells the first one.
func serverRestartedEmpty(t *testing.T, r *report) {
	const fault = "server restarted empty"
	server := testkit.NewRedis(t)
	config := session.Config{WatchdogTimeout: longLease, RenewEvery: renewEvery, QueueEntryTTL: queueEntryTTL}
	start := func(m mechanism) lock.Locker {
		return newProcess(t, m.name, nodestore.Dial(t, server.Addr(), nil), config)
	}
	held, losses := map[string]lock.Lease{}, map[string]*loss{}
	contended, waiting := map[string]*loss{}, map[string]*acquisition{}
	for _, m := range mechanisms() {
		l := start(m)
		held[m.name] = acquire(t, l, key, m.lease(longLease))
		if !m.renews {
			continue
		}
		losses[m.name] = awaitLoss(t, held[m.name])
		other := start(m)
		contended[m.name] = awaitLoss(t, acquire(t, l, "contended "+key, lock.Options{}))
		waiting[m.name] = acquireAsync(t.Context(), other, "contended "+key, lock.Options{Wait: time.Minute})
		testkit.Until(t, "a waiter", func() bool {
			state, err := other.(lock.Inspector).Inspect(t.Context(), "contended "+key)
			return err == nil && state.Waiting == 1
		})
	}
	killed := time.Now()
	server.Kill()
	server.Restart()
	restart := time.Since(killed)

	for _, m := range selected(renews) {
		waiting[m.name].mustSucceed(t)
		took := waiting[m.name].at.Sub(killed)
		mustBeBetween(t, m.name+"'s waiter got the lock", took, 0, restart+queueEntryTTL+slack)
		r.add(fault, m.name, took, "the waiter gets the lock")
		losses[m.name].mustBeTold(t, m.name, lock.ErrExpired)
		took = losses[m.name].at.Sub(killed)
		mustBeBetween(t, m.name+"'s holder was told", took, 0, restart+renewEvery+2*slack)
		r.add(fault, m.name, took, "the holder is told at its next renewal (every %v): %v", renewEvery, lock.ErrExpired)
		contended[m.name].mustBeTold(t, m.name, lock.ErrExpired, lock.ErrLost)
	}
	for _, m := range selected(func(m mechanism) bool { return !m.renews }) {
		acquire(t, start(m), key, m.lease(longLease))
		mustNotKnow(t, held[m.name])
		wrongRelease := m.blindRelease || m.sameOwners
		err := held[m.name].Release(t.Context())
		if wrongRelease && err != nil || !wrongRelease && !errors.Is(err, lock.ErrLost) {
			t.Errorf("%s: release = %v; frees another holder's lock: %v", m.name, err, wrongRelease)
		}
		if left := server.Client(t).Exists(t.Context(), redisKey("", m.name, key)).Val(); (left == 0) != wrongRelease {
			t.Errorf("%s: %d keys after the first holder's release", m.name, left)
		}
		outcome := "two holders; the first one is told by its release: " + lock.ErrLost.Error()
		if wrongRelease {
			outcome = "two holders; the first one is not told, and its release frees the second one's lock"
		}
		r.add(fault, m.name, 0, "%s", outcome)
	}
}

// clockMoved: the server's wall clock is set. If it is set forward by more than a lease,
// every lease ends at once and there are two holders. If it is set back, fencing tokens
// still grow, unless the token counter is lost as well.
func clockMoved(t *testing.T, r *report) {
	const fault = "clock moved"
	server, clock := testkit.NewRedisWithClock(t)
	client := server.Client(t)
	config := session.Config{WatchdogTimeout: longLease, RenewEvery: renewEvery}
	l := newProcess(t, "fenced", nodestore.Dial(t, server.Addr(), nil), config)
	token := func() uint64 {
		held := acquire(t, l, key, lock.Options{})
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		return held.Token()
	}
	deleteCounter := func() {
		if n, err := client.Del(t.Context(), redisKey("", "fenced", key)+":token").Result(); n != 1 || err != nil {
			t.Fatalf("deleting the counter: %d, %v", n, err)
		}
	}
	first := token()
	clock.Jump(-time.Hour / 2)
	second := token()
	mustGrow(t, r, fault, "the clock was set back by half an hour", first, second)
	clock.Jump(0)
	deleteCounter()
	third := token()
	mustGrow(t, r, fault, "the counter was deleted", second, third)
	deleteCounter()
	clock.Jump(-time.Hour / 2)
	if fourth := token(); fourth >= third {
		t.Errorf("tokens %d, then %d with a clock that was set back and no counter; the documentation says they do not grow",
			third, fourth)
	}
	r.add(fault, "fenced", 0, "after both the token does NOT grow: writes are refused until the clock has caught up")
	clock.Jump(0)

	for _, m := range selected(func(m mechanism) bool { return !m.noExpiry }) {
		held := acquire(t, newProcess(t, m.name, nodestore.Dial(t, server.Addr(), nil), config), "late "+key,
			m.lease(longLease))
		loss := awaitLoss(t, held)
		other := newProcess(t, m.name, nodestore.Dial(t, server.Addr(), nil), config)
		clock.Jump(2 * longLease)
		moved := time.Now()
		acquire(t, other, "late "+key, m.lease(longLease))
		mustNotKnow(t, held)
		if !m.renews {
			r.add(fault, m.name, 0, "set forward by more than a lease: two holders, the first one is not told")
			clock.Jump(0)
			continue
		}
		loss.mustBeTold(t, m.name, lock.ErrLost)
		took := loss.at.Sub(moved)
		mustBeBetween(t, m.name+"'s holder was told", took, 0, renewEvery+2*slack)
		r.add(fault, m.name, took, "set forward by more than a lease: two holders, the first one is told at its next renewal (every %v)", renewEvery)
		clock.Jump(0)
	}
}
