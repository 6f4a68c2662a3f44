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

// serverRestartedEmpty: SIGKILL of a redis-server that keeps nothing on disk. Who
// waits gets in; the holder is told at its next renewal, where there is one.
func serverRestartedEmpty(t *testing.T, r *report) {
	const fault = "server restarted empty"
	server := testkit.NewRedis(t)
	config := session.Config{WatchdogTimeout: long, RenewEvery: renewEvery, PlaceTimeout: place}
	newProcess := func(m string) lock.Locker {
		return process(t, m, nodestore.Dial(t, server.Addr(), nil), config)
	}
	alone, wanted := map[string]*loss{}, map[string]*loss{}
	waiting := map[string]*attempt{}
	for _, m := range strong {
		l, other := newProcess(m), newProcess(m)
		alone[m] = listen(t, acquire(t, l, key))
		wanted[m] = listen(t, acquire(t, l, "wanted "+key))
		waiting[m] = begin(t.Context(), other, "wanted "+key, lock.Options{Wait: time.Minute})
		until(t, "a waiter", func() bool {
			state, err := other.(lock.Inspector).Inspect(t.Context(), "wanted "+key)
			return err == nil && state.Waiting == 1
		})
	}
	deaf := map[string]lock.Lease{}
	for _, m := range []string{"setnx", "lua"} {
		deaf[m] = acquire(t, newProcess(m), key)
	}
	killed := time.Now()
	server.Kill()
	server.Restart()
	restart := time.Since(killed)

	for _, m := range strong {
		waiting[m].got(t)
		took := waiting[m].at.Sub(killed)
		between(t, m+"'s waiter got in", took, 0, restart+place+slack)
		r.saw(fault, m, took, "the waiter gets in")
		alone[m].wait(t, m, lock.ErrExpired)
		took = alone[m].at.Sub(killed)
		between(t, m+"'s holder was told", took, 0, restart+renewEvery+2*slack)
		r.saw(fault, m, took, "the holder is told at its next renewal (every %v): %v", renewEvery, lock.ErrExpired)
		wanted[m].wait(t, m, lock.ErrExpired, lock.ErrLost)
	}
	for m, wantErr := range map[string]error{"setnx": nil, "lua": lock.ErrLost} {
		acquire(t, newProcess(m), key)
		unaware(t, deaf[m])
		if err := deaf[m].Release(t.Context()); !errors.Is(err, wantErr) {
			t.Errorf("%s: release = %v, want %v", m, err, wantErr)
		}
		left := server.Client(t).Exists(t.Context(), name("", m, key)).Val()
		if left != map[string]int64{"setnx": 0, "lua": 1}[m] {
			t.Errorf("%s: %d keys after the first holder's release", m, left)
		}
	}
	r.saw(fault, "setnx", 0, "two holders; the first is not told, and its release frees the second one's lock")
	r.saw(fault, "lua", 0, "two holders; the first is told by its release: %v", lock.ErrLost)
}

// clockMoved: the server's wall clock is set wrong. Backwards, tokens still grow;
// forwards, a lease is over at once and its holder told at the next renewal.
func clockMoved(t *testing.T, r *report) {
	server, clock := testkit.NewRedisWithClock(t)
	client := server.Client(t)
	config := session.Config{WatchdogTimeout: long, RenewEvery: renewEvery}
	l := process(t, "fenced", nodestore.Dial(t, server.Addr(), nil), config)
	token := func() uint64 {
		held := acquire(t, l, key)
		if err := held.Release(t.Context()); err != nil {
			t.Error(err)
		}
		return held.Token()
	}
	grows := func(what string, before, after uint64) {
		if before == 0 || after <= before {
			t.Errorf("tokens %d, then %d after %s; want them to grow", before, after, what)
		}
		r.saw("clock moved", "fenced", 0, "%s: the token grows", what)
	}
	first := token()
	clock.Jump(-time.Hour / 2)
	second := token()
	grows("set back by half an hour", first, second)
	clock.Jump(0)
	forget := func() {
		if n, err := client.Del(t.Context(), name("", "fenced", key)+":token").Result(); n != 1 || err != nil {
			t.Fatalf("deleting the counter: %d, %v", n, err)
		}
	}
	forget()
	third := token()
	grows("counter deleted", second, third)
	// What is not guaranteed is not: both at once.
	forget()
	clock.Jump(-time.Hour / 2)
	if fourth := token(); fourth >= third {
		t.Errorf("tokens %d, then %d from a clock that was set back and no counter; the documentation says they do not grow", third, fourth)
	}
	r.saw("clock moved", "fenced", 0, "set back by half an hour and counter deleted: the token does NOT grow; writes are refused until the clock has caught up")
	clock.Jump(0)

	for _, m := range strong {
		held := acquire(t, process(t, m, nodestore.Dial(t, server.Addr(), nil), config), "late "+key)
		heard := listen(t, held)
		other := process(t, m, nodestore.Dial(t, server.Addr(), nil), config)
		clock.Jump(2 * long)
		moved := time.Now()
		acquire(t, other, "late "+key)
		unaware(t, held)
		heard.wait(t, m, lock.ErrLost)
		took := heard.at.Sub(moved)
		between(t, m+"'s holder was told", took, 0, renewEvery+2*slack)
		r.saw("clock moved", m, took, "forwards by more than a lease: two holders, the first is told at its next renewal (every %v)", renewEvery)
		clock.Jump(0)
	}
}
