package redis_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	. "seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A holder that dies between the two commands leaves the key for ever; one that fails there releases it.
func TestDiesBetweenSetNXAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := simulate.NewRedis(t).Client(t)
		l, err := setnxexpire.New(client, plain.Config{})
		fail.NowIf(t, err)
		const lease = time.Second
		acquireStruck := func(effect lock.Effect) error {
			faults, err := lock.NewFaults([]lock.Fault{{Point: lock.BetweenSetNXAndExpire, Effect: effect}}, nil)
			fail.NowIf(t, err)
			_, err = l.Acquire(lock.WithFaults(t.Context(), faults), "seat", lock.Options{TTL: lease})
			return err
		}
		fail.NowUnless(t, acquireStruck(lock.EffectError), lock.ErrInjected, "Acquire that fails between the two")
		fail.NowUnless(t, acquireStruck(lock.EffectAbandon), lock.ErrAbandoned, "Acquire that dies between the two: the failure before it gave the key back")
		const never = -1 // as go-redis returns it
		fail.Unequal(t, client.PTTL(t.Context(), redisio.Key("", "setnx-expire", "seat", "")).Val(), never, "the end of the dead holder's key")
		fail.Unless(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{Wait: 4 * lease})), lock.ErrNotAcquired, "Acquire, four leases after the death")
	})
}

// Two processes with the same counter take each other's lock for their own: the late release succeeds, and the other
// holder loses its lock.
func TestThreadNumbersMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		var processes [2]*plain.Locker
		for i := range processes {
			var err error
			if processes[i], err = threadid.New(server.Client(t), plain.Config{}); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 3 {
			late, err := processes[0].Acquire(t.Context(), "seat", lock.Options{TTL: time.Second})
			fail.NowIf(t, err)
			holder, err := processes[1].Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute})
			fail.NowIf(t, err)
			fail.If(t, late.Release(t.Context()), "round %d: a release of the other process's lock: the numbers are equal", round)
			fail.Unless(t, holder.Release(t.Context()), lock.ErrExpired, "round %d: the holder's own release: its lock was deleted", round)
		}
	})
}

// A release that reads the wrong key never releases: its promises are those of a fixed lease without those that need a
// release.
func TestWrongKeyConformance(t *testing.T) {
	p := FixedLease()
	for name, claim := range p {
		if claim == Holds() {
			p[name] = Breaks("no release recognises its own lock")
		}
	}
	m := redisstore.Mechanism{Name: "uuid-wrong-key", Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
		return uuid.NewReadingWrongKey(c[0], plain.Config{Prefix: s.Prefix, Poll: s.Poll})
	}}
	Virtual(t, m.Virtual, p.
		Except(Holds(), NamesHolder, AbandonedGrantStays, RefusesWrongKind).
		Except(Breaks("a released key is still held, and Inspect says so"), SaysWhoHolds))
}

// Nobody gets the lock before the lease has ended, although the holder released at once.
func TestWrongKeyLocksOutUntilLeaseEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := uuid.NewReadingWrongKey(simulate.NewRedis(t).Client(t), plain.Config{})
		fail.NowIf(t, err)
		const ttl = 10 * time.Second
		began := time.Now()
		lease, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: ttl})
		fail.NowIf(t, err)
		fail.Unless(t, lease.Release(t.Context()), lock.ErrExpired, "Release: there is nothing under the wrong key")
		fail.NowIf(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute})))
		if waited := time.Since(began); waited < ttl {
			t.Errorf("the next one got in after %v, want no sooner than %v", waited, ttl)
		}
	})
}
