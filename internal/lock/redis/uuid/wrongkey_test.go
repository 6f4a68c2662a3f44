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
	never := locktest.Breaks("no release recognises its own lock")
	open := func(client *redis.Client, prefix string) (lock.Locker, error) {
		return uuid.New(client, uuid.Config{Prefix: prefix, ReadsWrongKey: true})
	}
	locktest.Run(t, redisstore.Factory("uuid-wrong-key", open), locktest.Promises{
		locktest.ExcludesGoroutines:           never,
		locktest.ExcludesProcesses:            never,
		locktest.KeepsKeysApart:               never,
		locktest.ServesInOrder:                locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.ServesInOrderAcrossProcesses: locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.EvictsDeadWaiters:            never,
		locktest.QueueSurvivesPause:           locktest.Breaks("whoever asks at the right moment gets in"),
		locktest.OwnerFromContext:             never,
		locktest.NamesHolder:                  locktest.Holds(),
		locktest.Reenters:                     locktest.Breaks("an owner waits for itself"),
		locktest.ReentryKeepsLease:            locktest.NotApplicable("no re-entry"),
		locktest.TokensGrow:                   locktest.Breaks("no tokens"),
		locktest.TokenStaysOnReentry:          locktest.Breaks("no tokens"),
		locktest.TokensOutliveLock:            locktest.Breaks("no tokens"),
		locktest.TriesOnce:                    never,
		locktest.WaitsAsLongAsAsked:           never,
		locktest.ReleaseLetsWaiterIn:          never,
		locktest.WakesByMessage:               locktest.Breaks("waiters poll"),
		locktest.ExpiryLetsWaiterIn:           never,
		locktest.TellsCancelledFromTaken:      never,
		locktest.CancelLeavesNothing:          never,
		locktest.CancelledWaitersAreGone:      never,
		locktest.SurvivesLostGrantReply:       never,
		locktest.FailedGrantIsGivenBack:       never,
		locktest.AbandonedGrantStays:          locktest.Holds(),
		locktest.KeepsGivenLease:              never,
		locktest.LeaseRunsOut:                 never,
		locktest.SurvivesLongHold:             locktest.Breaks("the lease is fixed"),
		locktest.FreedAfterDeath:              never,
		locktest.RenewalIsRetried:             locktest.NotApplicable("no watchdog"),
		locktest.RenewalEndsWithRelease:       locktest.NotApplicable("no watchdog"),
		locktest.ToldWhenDeleted:              locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenStolen:               locktest.Breaks("nobody tells the holder"),
		locktest.ToldWhenExpired:              locktest.Breaks("nobody tells the holder"),
		locktest.ToldBeforeOthersGetIn:        locktest.NotApplicable("no watchdog"),
		locktest.ReleasesOnce:                 never,
		locktest.ReleasesOnlyOwn:              never,
		locktest.ReleasesAtomically:           never,
		locktest.TellsExpiredFromLost:         never,
		locktest.LeavesNothing:                never,
		locktest.EndsContextOnRelease:         never,
		locktest.SurvivesLostReleaseReply:     never,
		locktest.ReleasesAgainAfterOutage:     never,
		locktest.UnavailableIsQuick:           never,
		locktest.RefusesInvalid:               never,
		locktest.RefusesWrongKind:             locktest.Holds(),
		locktest.ExtendsLease:                 locktest.Breaks("a lease cannot be extended"),
		locktest.SaysWhoHolds:                 locktest.Breaks("a key that was released is still said to be held, and it is"),
		locktest.CanBeForced:                  locktest.Breaks("nobody can take a lock away"),
		locktest.AsyncDelivers:                never,
		locktest.LinearizableMutex:            never,
		locktest.LinearizableReentrant:        never,
		locktest.LinearizableFenced:           never,
		locktest.FollowsModel:                 never,
		locktest.EnduresManyPairs:             never,
		locktest.ThousandCancelledWaiters:     never,
	})
}

// Nobody gets in before the lease has run out, although the holder released at once.
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
