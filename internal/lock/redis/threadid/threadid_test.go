package threadid_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestConformance(t *testing.T) {
	open := func(client *redis.Client, prefix string) (lock.Locker, error) {
		return threadid.New(client, threadid.Config{Prefix: prefix})
	}
	locktest.Run(t, redisstore.Factory("thread-id", open), locktest.Promises{
		locktest.ExcludesGoroutines:      locktest.Holds(),
		locktest.ExcludesProcesses:       locktest.Holds(),
		locktest.KeepsKeysApart:          locktest.Holds(),
		locktest.ServesInOrder:           locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.OwnerFromContext:        locktest.Holds(),
		locktest.NamesHolder:             locktest.Breaks("SET NX says only that the key is taken"),
		locktest.Reenters:                locktest.Breaks("an owner waits for itself"),
		locktest.ReentryKeepsLease:       locktest.NotApplicable("no re-entry"),
		locktest.TokensGrow:              locktest.Breaks("no tokens"),
		locktest.TriesOnce:               locktest.Holds(),
		locktest.WaitsAsLongAsAsked:      locktest.Holds(),
		locktest.ReleaseLetsWaiterIn:     locktest.Holds(),
		locktest.WakesByMessage:          locktest.Breaks("waiters poll"),
		locktest.ExpiryLetsWaiterIn:      locktest.Holds(),
		locktest.TellsCancelledFromTaken: locktest.Holds(),
		locktest.CancelLeavesNothing:     locktest.Holds(),
		locktest.CancelledWaitersAreGone: locktest.Holds(),
		locktest.SurvivesLostGrantReply:  locktest.Breaks("the repeated command is refused by the first"),
		locktest.FailedGrantIsGivenBack:  locktest.Holds(),
		locktest.AbandonedGrantStays:     locktest.Holds(),
		locktest.KeepsGivenLease:         locktest.Holds(),
		locktest.LeaseRunsOut:            locktest.Holds(),
		locktest.SurvivesLongHold:        locktest.Breaks("the lease is fixed"),
		locktest.FreedAfterDeath:         locktest.Holds(),
		locktest.RenewalIsRetried:        locktest.NotApplicable("no watchdog"),
		locktest.RenewalEndsWithRelease:  locktest.NotApplicable("no watchdog"),
		locktest.ToldWhenDeleted:         locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenStolen:          locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenExpired:         locktest.Breaks("nobody tells the holder"),
		locktest.ToldBeforeOthersGetIn:   locktest.NotApplicable("no watchdog"),
		locktest.ReleasesOnce:            locktest.Holds(),
		locktest.ReleasesOnlyOwn:         locktest.Breaks("two processes have the same numbers"),
		locktest.ReleasesAtomically:      locktest.Breaks("GET, compare and DEL are three steps"),
		// The trial's processes have counted to different numbers; TestNumbersMeet has them equal.
		locktest.TellsExpiredFromLost:     locktest.Holds(),
		locktest.LeavesNothing:            locktest.Holds(),
		locktest.EndsContextOnRelease:     locktest.Holds(),
		locktest.SurvivesLostReleaseReply: locktest.Holds(),
		locktest.ReleasesAgainAfterOutage: locktest.Holds(),
		locktest.UnavailableIsQuick:       locktest.Holds(),
		locktest.RefusesInvalid:           locktest.Holds(),
		locktest.RefusesWrongKind:         locktest.Breaks("SET NX says only that the key is taken"),
	})
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := threadid.New(nil, threadid.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

// A DEL that got through although its reply was lost is not mistaken for an expiry,
// nor for a loss, when the caller makes the release again.
func TestReleaseAfterUnknownOutcome(t *testing.T) {
	line := locktest.NewLine()
	client := redis.NewClient(&redis.Options{
		Addr: testkit.Redis(t).Addr(), Dialer: line.Dial,
		MaxRetries: -1, // so that the lost reply is seen here
	})
	t.Cleanup(func() { _ = client.Close() })
	l, err := threadid.New(client, threadid.Config{Prefix: testkit.KeyPrefix(t)})
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
	for _, taken := range []bool{false, true} {
		lease := acquire()
		const del = 2 // after GET
		line.LoseReply(del, locktest.Reset, nil)
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

// The gap between comparison and deletion is a named point: what strikes there
// finds the key compared and not deleted.
func TestPassesPointBetweenCompareAndDelete(t *testing.T) {
	client := testkit.Redis(t).Client(t)
	l, err := threadid.New(client, threadid.Config{Prefix: testkit.KeyPrefix(t)})
	if err != nil {
		t.Fatal(err)
	}
	faults, err := lock.NewFaults([]lock.Fault{{Point: lock.BetweenCompareAndDelete, Effect: lock.EffectError}}, nil)
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

// Two processes that have counted equally far take each other's lock for their own:
// the late release says that all is well, and the holder has none any more.
func TestNumbersMeet(t *testing.T) {
	client, prefix := testkit.Redis(t).Client(t), testkit.KeyPrefix(t)
	var processes [2]*threadid.Locker
	for i := range processes {
		var err error
		if processes[i], err = threadid.New(client, threadid.Config{Prefix: prefix}); err != nil {
			t.Fatal(err)
		}
	}
	const short = 50 * time.Millisecond
	for round := range 3 {
		late, err := processes[0].Acquire(t.Context(), "seat", lock.Options{TTL: short})
		if err != nil {
			t.Fatal(err)
		}
		holder, err := processes[1].Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Release(t.Context()); err != nil {
			t.Errorf("round %d: a release of the other process's lock = %v, want nil: the numbers are equal", round, err)
		}
		if err := holder.Release(t.Context()); !errors.Is(err, lock.ErrExpired) {
			t.Errorf("round %d: the holder's own release = %v, want ErrExpired: its lock was deleted", round, err)
		}
	}
}
