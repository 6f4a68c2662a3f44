package redisstore

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// ReleaseAfterLostReply checks a mechanism whose release can be repeated. The first
// release succeeds, but its reply is lost. The repeated release must report neither an
// expiry nor, if another owner has the lock by then, a loss. commands is the number of
// commands of a release; the reply to the last one is lost.
func ReleaseAfterLostReply(t *testing.T, open Open, commands int) {
	t.Helper()
	network := locktest.NewNetwork()
	client := redis.NewClient(&redis.Options{
		Addr: testkit.Redis(t).Addr(), Dialer: network.Dial,
		MaxRetries: -1, // so that the lost reply is an error here
	})
	t.Cleanup(func() { _ = client.Close() })
	l, err := open(client, testkit.KeyPrefix(t))
	if err != nil {
		t.Fatal(err)
	}
	acquire := func() lock.Lease {
		t.Helper()
		lease, err := l.Acquire(t.Context(), "seat", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return lease
	}
	if err := acquire().Release(t.Context()); err != nil { // from now on the server knows the script
		t.Fatal(err)
	}
	for _, taken := range []bool{false, true} {
		lease := acquire()
		network.LoseReply(commands, locktest.Reset, nil)
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
			t.Fatalf("Release without a reply = %v, want ErrUnavailable", err)
		}
		if taken {
			acquire()
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release again (taken by another owner: %v) = %v, want nil: the first release succeeded", taken, err)
		}
	}
}

// PassesBetweenCompareAndDelete checks a mechanism that compares and deletes in two
// steps. A fault at the point between them finds the key compared but not deleted.
func PassesBetweenCompareAndDelete(t *testing.T, open Open) {
	t.Helper()
	faults, err := lock.NewFaults([]lock.Fault{{Point: lock.BetweenCompareAndDelete, Effect: lock.EffectError}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := open(testkit.Redis(t).Client(t), testkit.KeyPrefix(t))
	if err != nil {
		t.Fatal(err)
	}
	lease, err := l.Acquire(lock.WithFaults(t.Context(), faults), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrInjected) {
		t.Errorf("Release = %v, want ErrInjected", err)
	}
	if _, err := l.Acquire(t.Context(), "seat", lock.Options{}); !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire = %v, want ErrNotAcquired: nothing was deleted", err)
	}
}
