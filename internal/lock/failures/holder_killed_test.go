package failures_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/testkit"
)

// holderKilled: SIGKILL of a process that holds the lock. Who waits in another
// process gets in when the dead one's lease is over: not before, and within one
// watchdog timeout. Without a lease, never.
func holderKilled(t *testing.T, r *report) {
	for _, mechanism := range strong {
		t.Run(mechanism, func(t *testing.T) { t.Parallel(); killHolder(t, r, mechanism, 0) })
	}
	t.Run("lua", func(t *testing.T) { t.Parallel(); killHolder(t, r, "lua", lease) })
	t.Run("setnx", func(t *testing.T) { t.Parallel(); killHolderForEver(t, r) })
}

func killHolder(t *testing.T, r *report, mechanism string, ttl time.Duration) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	j := job{Do: "hold", Mechanism: mechanism, Addr: server.Addr(), Prefix: prefix, TTL: ttl}
	client := nodestore.Dial(t, server.Addr(), nil)
	l := process(t, mechanism, client, j.config())
	holder := startChild(t, j)
	holder.WaitLine(t, "^holds$")
	waiter := begin(t.Context(), l, key, lock.Options{Wait: patience, TTL: ttl})
	if ttl == 0 {
		renewed(t, client, name(prefix, mechanism, key))
	}
	holder.Kill()
	killed := time.Now()
	left := client.PTTL(t.Context(), name(prefix, mechanism, key)).Val() // by the server's clock
	held := waiter.got(t)
	took := waiter.at.Sub(killed)
	const rounding = 2 * time.Millisecond // PTTL's
	if left <= 0 {
		t.Fatalf("the dead holder's lock has a TTL of %v: this shows nothing", left)
	}
	between(t, "the waiter got in", took, left-rounding, lease+slack)
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	r.saw("holder killed", mechanism, took, "free at the end of its lease (%v were left of %v)", left, lease)
}

// killHolderForEver: SETNX has no lease, so there is nothing that could end.
func killHolderForEver(t *testing.T, r *report) {
	server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
	j := job{Do: "hold", Mechanism: "setnx", Addr: server.Addr(), Prefix: prefix, TTL: lease}
	client := nodestore.Dial(t, server.Addr(), nil)
	l := process(t, "setnx", client, j.config())
	holder := startChild(t, j)
	holder.WaitLine(t, "^holds$")
	holder.Kill()
	const long = 3 * lease
	if _, err := l.Acquire(t.Context(), key, lock.Options{Wait: long}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire = %v, want ErrNotAcquired", err)
	}
	if ttl := client.PTTL(t.Context(), name(prefix, "setnx", key)).Val(); ttl != -1 {
		t.Errorf("PTTL = %v, want -1: no end", ttl)
	}
	r.saw("holder killed", "setnx", long, "still taken then; the key has no TTL: for ever")
}

// waitersKilled: SIGKILL of a process that stands first in the queue, three
// goroutines of it. Those behind get in within the time that a place lasts.
func waitersKilled(t *testing.T, r *report) {
	for mechanism, places := range map[string]int{"reentrant": 1, "fair": 3} { // of the process, in Redis
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			server, prefix := testkit.Redis(t), testkit.KeyPrefix(t)
			j := job{Do: "queue", Mechanism: mechanism, Addr: server.Addr(), Prefix: prefix, Waiters: 3}
			client := nodestore.Dial(t, server.Addr(), nil)
			l := process(t, mechanism, client, j.config())
			held := acquire(t, l, key)
			queued := func(n int) func() bool {
				return func() bool {
					state, err := l.(lock.Inspector).Inspect(t.Context(), key)
					return err == nil && state.Waiting == n
				}
			}
			dead := startChild(t, j)
			until(t, "the child to stand in the queue", queued(places))
			other := process(t, mechanism, nodestore.Dial(t, server.Addr(), nil), j.config())
			waiter := begin(t.Context(), other, key, lock.Options{Wait: patience})
			until(t, "another process to stand behind it", queued(places+1))

			dead.Kill()
			released := time.Now()
			if err := held.Release(t.Context()); err != nil {
				t.Error(err)
			}
			next := waiter.got(t)
			took := waiter.at.Sub(released)
			between(t, "the next process got in", took, 0, place+slack)
			if err := next.Release(t.Context()); err != nil {
				t.Error(err)
			}
			r.saw("waiters killed", mechanism, took, "the process behind them gets in (a place lasts %v)", place)
		})
	}
}
