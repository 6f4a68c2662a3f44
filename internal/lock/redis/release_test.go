package redis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

func mechanism(t *testing.T, name string) redisstore.Mechanism {
	t.Helper()
	for _, m := range mechanisms() {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no mechanism %s", name)
	return redisstore.Mechanism{}
}

// onLink opens a locker on a server in this process, which it reaches through a link and repeats no command to.
func onLink(t *testing.T, name string) (lock.Locker, *simulate.Link) {
	t.Helper()
	link, options := simulate.NewLink(), simulate.NewRedis(t).Options()
	options.Dialer = link.Over(options.Dialer)
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	l, err := mechanism(t, name).Open([]redis.UniversalClient{client}, redisstore.Setting{})
	fail.NowIf(t, err)
	return l, link
}

func acquire(t *testing.T, l lock.Locker) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: time.Minute})
	fail.NowIf(t, err)
	return lease
}

// A release can be repeated. The first one succeeds, but its reply is lost. The repeated one reports neither an expiry
// nor, if another owner has the lock by then, a loss.
func TestReleaseAfterLostReply(t *testing.T) {
	for name, commands := range map[string]int{"lua": 1, "uuid": 2, "thread-id": 2} {
		t.Run(name, func(t *testing.T) {
			l, link := onLink(t, name)
			if err := acquire(t, l).Release(t.Context()); err != nil { // from now on the server knows the script
				t.Fatal(err)
			}
			for _, taken := range []bool{false, true} {
				lease := acquire(t, l)
				link.LoseReply(commands, simulate.Reset, nil)
				fail.NowUnless(t, lease.Release(t.Context()), lock.ErrUnavailable, "Release without a reply")
				if taken {
					acquire(t, l)
				}
				fail.If(t, lease.Release(t.Context()), "Release again (taken by another owner: %v): the first release succeeded", taken)
			}
		})
	}
}

// A fault between comparing and deleting finds the key compared but not deleted.
func TestPassesBetweenCompareAndDelete(t *testing.T) {
	for _, name := range []string{"uuid", "thread-id"} {
		t.Run(name, func(t *testing.T) {
			faults, err := lock.NewFaults([]lock.Fault{{Point: lock.BetweenCompareAndDelete, Effect: lock.EffectError}}, nil)
			fail.NowIf(t, err)
			l, _ := onLink(t, name)
			lease, err := l.Acquire(lock.WithFaults(t.Context(), faults), "seat", lock.Options{})
			fail.NowIf(t, err)
			fail.Unless(t, lease.Release(t.Context()), lock.ErrInjected, "Release")
			fail.Unless(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{})), lock.ErrNotAcquired, "Acquire: nothing was deleted")
		})
	}
}
