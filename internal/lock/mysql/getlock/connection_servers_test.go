package getlock_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/getlock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// unchecked has connections that are not checked while a test lasts, unless a holder asks.
var unchecked = mysqlio.Config{CheckEvery: time.Hour, Timeout: time.Minute}

// start makes a locker with its own pool.
func start(t *testing.T, where testkit.Database, prefix string, network *locktest.Network) (*getlock.Locker, *sql.DB) {
	t.Helper()
	db := mysqlstore.Pool(t, where, network)
	l, err := getlock.New(db, getlock.Config{Prefix: prefix, Config: unchecked})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, db
}

func acquire(t *testing.T, l lock.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "seat", opts)
	fail.NowIf(t, err)
	return lease
}

func TestConnectionLossIsSeenByTheServerFirst(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix := engine(t), testkit.KeyPrefix(t)
		p, _ := start(t, where, prefix, nil)
		q, db := start(t, where, prefix, nil)
		mysqlstore.ConnectionLossIsSeenByTheServerFirst(t, db, p, q, func(ctx context.Context) (uint64, error) {
			return holder(ctx, db, prefix, "seat")
		})
	})
}

func TestEndedContextKeepsLock(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix, network := engine(t), testkit.KeyPrefix(t), locktest.NewNetwork()
		p, _ := start(t, where, prefix, network)
		q, _ := start(t, where, prefix, nil)
		mysqlstore.EndedContextKeepsLock(t, network, p, q)
	})
}

// A wait with a fraction of a second lasts until its limit on both servers, although MySQL rounds fractions. That it
// does not last longer is tested in soak.
func TestWaitsForFractionsOfASecond(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		waitsForFractionsOfASecond(t, engine, time.Hour)
	})
}

func waitsForFractionsOfASecond(t *testing.T, engine func(testkit.TB) testkit.Database, late time.Duration) {
	p, _ := start(t, engine(t), testkit.KeyPrefix(t), nil)
	held := acquire(t, p, lock.Options{})
	// The limit is for the wait, so the connection of the waiter is opened before.
	if other, err := p.Acquire(t.Context(), "other", lock.Options{}); err != nil {
		t.Fatal(err)
	} else if err := other.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{50 * time.Millisecond, 1200 * time.Millisecond} {
		began := time.Now()
		_, err := p.Acquire(t.Context(), "seat", lock.Options{Wait: wait})
		took := time.Since(began)
		if taken, ok := errors.AsType[*lock.NotAcquiredError](err); !ok || late < time.Hour && taken.Holder != held.Owner() {
			t.Errorf("Acquire = %v, want a NotAcquiredError that names %s", err, held.Owner())
		}
		if took < wait || took > wait+late {
			t.Errorf("asked to wait %v, it waited %v", wait, took)
		}
	}
	fail.NowIf(t, held.Release(t.Context()))
}

// Connections return to the pool without a lock, and a closed locker keeps none.
func TestConnectionsGoBackClean(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix := engine(t), testkit.KeyPrefix(t)
		p, db := start(t, where, prefix, nil)
		db.SetMaxOpenConns(1)
		for range 3 {
			fail.NowIf(t, acquire(t, p, lock.Options{}).Release(t.Context()))
		}
		var left int
		if err := db.QueryRowContext(t.Context(), "SELECT RELEASE_ALL_LOCKS()").Scan(&left); err != nil || left != 0 {
			t.Errorf("the pool's connection has %d locks, %v", left, err)
		}
		held := acquire(t, p, lock.Options{})
		fail.NowIf(t, p.Close())
		fail.Unless(t, context.Cause(held.Context()), lock.ErrUnavailable, "the holder of a closed locker")
		fail.Unless(t, fail.Of(p.Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute})), lock.ErrUnavailable, "Acquire on a closed locker")
		testkit.Until(t, "the end of the lock", func() bool {
			id, err := holder(t.Context(), db, prefix, "seat")
			return err == nil && id == 0
		})
	})
}
