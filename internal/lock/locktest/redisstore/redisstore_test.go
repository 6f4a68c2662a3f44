package redisstore_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// lease is what the watchdog below renews.
const lease = 3 * time.Second

// watchdog is a small lock with renewal and one flaw. It shows that the suite's checks of
// a watchdog can fail. Without a flaw it passes them.
type watchdog struct {
	client redis.UniversalClient
	prefix string
	flaw   flaw
	owners *lock.Owners

	ctx      context.Context
	cancel   context.CancelFunc
	renewals sync.WaitGroup
}

type flaw string

const (
	sound            flaw = "none"
	outlivesRelease  flaw = "the renewal outlives the release"
	givesUpAtOnce    flaw = "one failed renewal is the last"
	tellsTooLate     flaw = "the holder is told when it is too late"
	lengthensReentry flaw = "re-entry gives the default lease"
	leavesKey        flaw = "the release leaves a key"
	hidesOutage      flaw = "a release without a server succeeds"
	isSlow           flaw = "an outage is noticed slowly"
)

func (w *watchdog) Close() error {
	w.cancel()
	w.renewals.Wait()
	return nil
}

func (w *watchdog) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	owner := w.owners.From(ctx)
	return lock.Polling{}.Acquire(ctx, opts.Wait, func(ctx context.Context) (lock.Lease, error) {
		return w.try(ctx, key, owner, opts.TTL)
	})
}

func (w *watchdog) try(ctx context.Context, key string, owner lock.Owner, ttl time.Duration) (lock.Lease, error) {
	name := redisio.Key(w.prefix, "watchdog", key, "")
	renewed := ttl == 0
	if renewed {
		ttl = lease
	}
	began := time.Now()
	found, err := w.client.SetArgs(ctx, name, string(owner), redis.SetArgs{Mode: "NX", Get: true, TTL: ttl}).Result()
	again := err == nil && found == string(owner)
	switch {
	case again && w.flaw == lengthensReentry:
		w.client.PExpire(ctx, name, lock.DefaultTTL)
	case again, errors.Is(err, redis.Nil):
	case err != nil:
		if w.flaw == isSlow {
			time.Sleep(2500 * time.Millisecond)
		}
		return nil, redisio.Error(ctx, err)
	default:
		return nil, &lock.NotAcquiredError{Key: key, Holder: lock.Owner(found)}
	}

	renewal, stop := context.WithCancel(w.ctx)
	grant := lock.Grant{
		Key: key, Owner: owner, Until: began.Add(ttl), Stop: stop,
		Release: func(ctx context.Context) error { return w.release(ctx, name, again) },
	}
	if w.flaw == outlivesRelease {
		grant.Stop = nil
	}
	held := lock.NewHeld(ctx, grant)
	if renewed && !again {
		w.renewals.Go(func() { defer stop(); w.renew(renewal, name, held) })
	}
	return held, nil
}

// release assumes that the first lease is released last.
func (w *watchdog) release(ctx context.Context, name string, again bool) error {
	if again {
		return nil
	}
	if w.flaw == leavesKey {
		w.client.Set(ctx, name+":trace", 1, time.Minute)
	}
	if err := w.client.Del(ctx, name).Err(); err != nil && w.flaw != hidesOutage {
		return redisio.Error(ctx, err)
	}
	return nil
}

// renew tells the holder a sixth of the lease before its end.
func (w *watchdog) renew(ctx context.Context, name string, held *lock.Held) {
	margin := lease / 6
	if w.flaw == tellsTooLate {
		margin = -lease / 2
	}
	tick := time.NewTicker(lease / 12)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if held.Remaining() < margin {
			held.Lose(lock.ErrExpired)
			return
		}
		if held.Remaining() > lease*2/3 {
			continue
		}
		began := time.Now()
		attempt, cancel := context.WithTimeout(ctx, lease/12)
		err := w.client.PExpire(attempt, name, lease).Err()
		cancel()
		switch {
		case err == nil:
			held.Renewed(began.Add(lease))
		case w.flaw == givesUpAtOnce:
			held.Lose(lock.ErrUnavailable)
			return
		}
	}
}

func TestFlawsAreCaught(t *testing.T) {
	caught := map[flaw]locktest.Behaviour{
		outlivesRelease:  locktest.RenewalEndsWithRelease,
		givesUpAtOnce:    locktest.RenewalIsRetried,
		tellsTooLate:     locktest.ToldBeforeOthersGetIn,
		lengthensReentry: locktest.ReentryKeepsLease,
		leavesKey:        locktest.LeavesNothing,
		hidesOutage:      locktest.ReleasesAgainAfterOutage,
		isSlow:           locktest.UnavailableIsQuick,
	}
	for flaw, behaviour := range caught {
		t.Run(string(flaw), func(t *testing.T) {
			locktest.Virtual(t, subject(flaw), only(behaviour, locktest.Breaks(string(flaw))))
		})
		t.Run("sound/"+string(behaviour), func(t *testing.T) {
			locktest.Virtual(t, subject(sound), only(behaviour, locktest.Holds()))
		})
	}
}

func subject(f flaw) locktest.Factory {
	m := redisstore.Mechanism{Name: "watchdog", Open: func(c []redis.UniversalClient, s redisstore.Setting) (lock.Locker, error) {
		w := &watchdog{client: c[0], prefix: s.Prefix, flaw: f, owners: lock.NewOwners()}
		w.ctx, w.cancel = context.WithCancel(context.Background())
		return w, nil
	}}
	return func(tb testing.TB) locktest.Subject {
		s := m.Virtual(tb)
		s.Renewed = lease
		return s
	}
}

// only makes promises about one behaviour.
func only(asked locktest.Behaviour, claim locktest.Claim) locktest.Promises {
	return locktest.Only(locktest.AllHold(), asked).Except(claim, asked)
}
