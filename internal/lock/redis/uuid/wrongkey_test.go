package uuid_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/testkit"
)

func TestWrongKeyConformance(t *testing.T) {
	open := func(client *redis.Client, prefix string) (lock.Locker, error) {
		return uuid.New(client, uuid.Config{Prefix: prefix, ReadsWrongKey: true})
	}
	locktest.Run(t, redisstore.Factory("uuid-wrong-key", open), wrongKeyPromises())
}

// wrongKeyPromises returns the promises of a fixed lease without those that need a release.
func wrongKeyPromises() locktest.Promises {
	p := locktest.FixedLease()
	for name, claim := range p {
		if claim == locktest.Holds() {
			p[name] = locktest.Breaks("no release recognises its own lock")
		}
	}
	return p.
		Except(locktest.Holds(), locktest.NamesHolder, locktest.AbandonedGrantStays, locktest.RefusesWrongKind).
		Except(locktest.Breaks("a released key is still held, and Inspect says so"), locktest.SaysWhoHolds)
}

// Nobody gets the lock before the lease has ended, although the holder released at once.
func TestWrongKeyLocksOutUntilLeaseEnds(t *testing.T) {
	l, err := uuid.New(testkit.Redis(t).Client(t), uuid.Config{Prefix: testkit.KeyPrefix(t), ReadsWrongKey: true})
	if err != nil {
		t.Fatal(err)
	}
	const ttl = 300 * time.Millisecond
	began := time.Now()
	lease, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrExpired) {
		t.Errorf("Release = %v, want ErrExpired: there is nothing under the wrong key", err)
	}
	if _, err := l.Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < ttl {
		t.Errorf("the next one got in after %v, want no sooner than %v", waited, ttl)
	}
}
