package redisstore

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// ReleaseAfterLostReply checks a mechanism whose release may be made again: one
// that got through although its reply was lost is not mistaken for an expiry, nor,
// when somebody else has the lock by then, for a loss. commands is how many a
// release sends; the reply to the last one is lost.
func ReleaseAfterLostReply(t *testing.T, open Open, commands int) {
	t.Helper()
	line := locktest.NewLine()
	client := redis.NewClient(&redis.Options{
		Addr: testkit.Redis(t).Addr(), Dialer: line.Dial,
		MaxRetries: -1, // so that the lost reply is seen here
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
	if err := acquire().Release(t.Context()); err != nil { // the server knows the script from here on
		t.Fatal(err)
	}
	for _, taken := range []bool{false, true} {
		lease := acquire()
		line.LoseReply(commands, locktest.Reset, nil)
		if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrUnavailable) {
			t.Fatalf("Release without a reply = %v, want ErrUnavailable", err)
		}
		if taken {
			acquire()
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Errorf("Release again, taken by another: %v, gave %v, want nil: the first got through", taken, err)
		}
	}
}

// PassesBetweenCompareAndDelete checks a mechanism that compares and deletes in two
// steps: the gap is a named point, and what strikes there finds the key compared
// and not deleted.
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
	lease, err := l.Acquire(t.Context(), "seat", lock.Options{Faults: faults})
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
