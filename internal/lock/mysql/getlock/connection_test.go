package getlock_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/getlock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
)

// start makes a locker with its own pool.
func start(t *testing.T, where testkit.Database, prefix string, check time.Duration) (*getlock.Locker, *sql.DB) {
	t.Helper()
	db := mysqlstore.Pool(t, where, nil)
	l, err := getlock.New(db, getlock.Config{Prefix: prefix, Config: mysqlio.Config{CheckEvery: check}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, db
}

func acquire(t *testing.T, l lock.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	lease, err := l.Acquire(t.Context(), "seat", opts)
	if err != nil {
		t.Fatal(err)
	}
	return lease
}

func TestConnectionLossIsSeenByTheServerFirst(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix := engine(t), testkit.KeyPrefix(t)
		const check = 2 * time.Second
		p, _ := start(t, where, prefix, check)
		q, db := start(t, where, prefix, check)
		mysqlstore.ConnectionLossIsSeenByTheServerFirst(t, db, p, q, check, func(ctx context.Context) (uint64, error) {
			return holder(ctx, db, prefix, "seat")
		})
	})
}

func TestEndedContextKeepsLock(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix, network := engine(t), testkit.KeyPrefix(t), locktest.NewNetwork()
		config := getlock.Config{Prefix: prefix, Config: mysqlio.Config{CheckEvery: time.Hour}}
		p, err := getlock.New(mysqlstore.Pool(t, where, network), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Close() })
		q, _ := start(t, where, prefix, time.Second)
		mysqlstore.EndedContextKeepsLock(t, network, p, q)
	})
}

// A waiter that gives up leaves no server thread that gets the lock later.
func TestCancelledWaiterIsGoneFromTheServer(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix := engine(t), testkit.KeyPrefix(t)
		p, _ := start(t, where, prefix, time.Second)
		q, db := start(t, where, prefix, time.Second)
		held := acquire(t, p, lock.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := q.Acquire(ctx, "seat", lock.Options{Wait: time.Minute})
			failed <- err
		}()
		waiting := func() int {
			waits, err := mysqlstore.Waits(t.Context(), db, "SELECT GET_LOCK(")
			if err != nil {
				t.Fatal(err)
			}
			return len(waits)
		}
		testkit.Until(t, "a waiter on the server", func() bool { return waiting() == 1 })
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("Acquire = %v, want context.Canceled", err)
		}
		if n := waiting(); n != 0 {
			t.Errorf("%d waiters are left on the server", n)
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		if id, err := holder(t.Context(), db, prefix, "seat"); err != nil || id != 0 {
			t.Errorf("after the release connection %d has the lock, %v", id, err)
		}
	})
}

// A wait with a fraction of a second ends at its limit on both servers, although MySQL
// rounds fractions.
func TestWaitsForFractionsOfASecond(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix := engine(t), testkit.KeyPrefix(t)
		p, _ := start(t, where, prefix, time.Second)
		held := acquire(t, p, lock.Options{})
		// The limit is for the wait, so the connection of the waiter is opened before.
		if other, err := p.Acquire(t.Context(), "other", lock.Options{}); err != nil {
			t.Fatal(err)
		} else if err := other.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{50 * time.Millisecond, 1200 * time.Millisecond} {
			began, watch := time.Now(), testkit.StartStopwatch()
			_, err := p.Acquire(t.Context(), "seat", lock.Options{Wait: wait})
			took, ran := time.Since(began), watch.Stop()
			taken, ok := errors.AsType[*lock.NotAcquiredError](err)
			if !ok || taken.Holder != held.Owner() {
				t.Errorf("Acquire = %v, want a NotAcquiredError that names %s", err, held.Owner())
			}
			if took < wait || ran > wait+350*time.Millisecond {
				t.Errorf("asked to wait %v, it waited %v", wait, took)
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// Connections return to the pool without a lock, and a closed locker keeps none.
func TestConnectionsGoBackClean(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, prefix := engine(t), testkit.KeyPrefix(t)
		p, db := start(t, where, prefix, time.Second)
		db.SetMaxOpenConns(1)
		for range 3 {
			if err := acquire(t, p, lock.Options{}).Release(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		var left int
		if err := db.QueryRowContext(t.Context(), "SELECT RELEASE_ALL_LOCKS()").Scan(&left); err != nil || left != 0 {
			t.Errorf("the pool's connection has %d locks, %v", left, err)
		}
		held := acquire(t, p, lock.Options{})
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(held.Context()); !errors.Is(cause, lock.ErrUnavailable) {
			t.Errorf("the holder of a closed locker was told %v, want ErrUnavailable", cause)
		}
		if _, err := p.Acquire(t.Context(), "seat", lock.Options{Wait: time.Minute}); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("Acquire on a closed locker = %v, want ErrUnavailable", err)
		}
		testkit.Until(t, "the end of the lock", func() bool {
			id, err := holder(t.Context(), db, prefix, "seat")
			return err == nil && id == 0
		})
	})
}

func TestName(t *testing.T) {
	if got := getlock.Name("shop:", "voucher:1"); got != "lock:shop:voucher:1" {
		t.Errorf("a plain key is called %q", got)
	}
	seen := make(map[string]string)
	for _, key := range []string{"seat", "Seat", "SEAT", "座位", "seat 1", strings.Repeat("k", 59),
		strings.Repeat("k", 60), strings.Repeat("k", 256)} {
		name := strings.ToLower(getlock.Name("", key)) // as the servers compare
		if len(name) > 64 {
			t.Errorf("the name of %q is %d characters long", key, len(name))
		}
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %q are both called %q", key, other, name)
		}
		seen[name] = key
	}
}

func TestNewNeedsDatabase(t *testing.T) {
	if _, err := getlock.New(nil, getlock.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
	negative := getlock.Config{Config: mysqlio.Config{CheckEvery: -1}}
	if _, err := getlock.New(&sql.DB{}, negative); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New with a negative interval = %v, want ErrInvalid", err)
	}
}
