package uuid_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestConformance(t *testing.T) {
	open := func(client *redis.Client, prefix string) (lock.Locker, error) {
		return uuid.New(client, uuid.Config{Prefix: prefix})
	}
	locktest.Run(t, redisstore.Factory("uuid", open), locktest.Promises{
		locktest.ExcludesGoroutines:       locktest.Holds(),
		locktest.ExcludesProcesses:        locktest.Holds(),
		locktest.KeepsKeysApart:           locktest.Holds(),
		locktest.ServesInOrder:            locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.OwnerFromContext:         locktest.Holds(),
		locktest.NamesHolder:              locktest.Holds(),
		locktest.Reenters:                 locktest.Breaks("an owner waits for itself"),
		locktest.ReentryKeepsLease:        locktest.NotApplicable("no re-entry"),
		locktest.TokensGrow:               locktest.Breaks("no tokens"),
		locktest.TriesOnce:                locktest.Holds(),
		locktest.WaitsAsLongAsAsked:       locktest.Holds(),
		locktest.ReleaseLetsWaiterIn:      locktest.Holds(),
		locktest.WakesByMessage:           locktest.Breaks("waiters poll"),
		locktest.ExpiryLetsWaiterIn:       locktest.Holds(),
		locktest.TellsCancelledFromTaken:  locktest.Holds(),
		locktest.CancelLeavesNothing:      locktest.Holds(),
		locktest.CancelledWaitersAreGone:  locktest.Holds(),
		locktest.SurvivesLostGrantReply:   locktest.Holds(),
		locktest.FailedGrantIsGivenBack:   locktest.Holds(),
		locktest.AbandonedGrantStays:      locktest.Holds(),
		locktest.KeepsGivenLease:          locktest.Holds(),
		locktest.LeaseRunsOut:             locktest.Holds(),
		locktest.SurvivesLongHold:         locktest.Breaks("the lease is fixed"),
		locktest.FreedAfterDeath:          locktest.Holds(),
		locktest.RenewalIsRetried:         locktest.NotApplicable("no watchdog"),
		locktest.RenewalEndsWithRelease:   locktest.NotApplicable("no watchdog"),
		locktest.ToldWhenDeleted:          locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenStolen:           locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenExpired:          locktest.Breaks("nobody tells the holder"),
		locktest.ToldBeforeOthersGetIn:    locktest.NotApplicable("no watchdog"),
		locktest.ReleasesOnce:             locktest.Holds(),
		locktest.ReleasesOnlyOwn:          locktest.Holds(),
		locktest.ReleasesAtomically:       locktest.Breaks("GET, compare and DEL are three steps"),
		locktest.TellsExpiredFromLost:     locktest.Holds(),
		locktest.LeavesNothing:            locktest.Holds(),
		locktest.EndsContextOnRelease:     locktest.Holds(),
		locktest.SurvivesLostReleaseReply: locktest.Holds(),
		locktest.ReleasesAgainAfterOutage: locktest.Holds(),
		locktest.UnavailableIsQuick:       locktest.Holds(),
		locktest.RefusesInvalid:           locktest.Holds(),
		locktest.RefusesWrongKind:         locktest.Holds(),
	})
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := uuid.New(nil, uuid.Config{}); !errors.Is(err, lock.ErrInvalid) {
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
	l, err := uuid.New(client, uuid.Config{Prefix: testkit.KeyPrefix(t)})
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
	l, err := uuid.New(client, uuid.Config{Prefix: testkit.KeyPrefix(t)})
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
