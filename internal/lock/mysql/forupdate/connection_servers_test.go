package forupdate_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/forupdate"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// start makes a locker whose connections are not checked while a test lasts, unless a holder asks. The timeout bounds
// how long an acquisition waits for what another session keeps from it.
func start(t *testing.T, db *sql.DB, timeout time.Duration) *forupdate.Locker {
	t.Helper()
	l, err := forupdate.New(db, forupdate.Config{Config: mysqlio.Config{CheckEvery: time.Hour, Timeout: timeout}})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Every holder keeps a connection: a pool of three connections has three locks.
func TestHoldersExhaustThePool(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, migration)
		const holders = 3
		db.SetMaxOpenConns(holders)
		l := start(t, db, 2*time.Second)
		var leases []lock.Lease
		for i := range holders {
			lease, err := l.Acquire(t.Context(), fmt.Sprint("seat-", i), lock.Options{})
			fail.NowIf(t, err)
			leases = append(leases, lease)
		}
		for _, wait := range []time.Duration{0, 200 * time.Millisecond} { // nobody gives a connection back
			_, err := l.Acquire(t.Context(), "a free seat", lock.Options{Wait: wait})
			fail.Unless(t, err, lock.ErrUnavailable, "Acquire without a connection")
		}
		for _, lease := range leases {
			fail.If(t, lease.Release(t.Context()))
		}
		lease, err := l.Acquire(t.Context(), "a free seat", lock.Options{})
		fail.NowIf(t, err, "after the releases")
		fail.If(t, lease.Release(t.Context()))
	})
}

func TestConnectionLossIsSeenByTheServerFirst(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where := engine(t)
		db := mysqlstore.Pool(t, where, nil)
		mysqlstore.Migrate(t, db, migration)
		p, q := start(t, db, time.Minute), start(t, mysqlstore.Pool(t, where, nil), time.Minute)
		mysqlstore.ConnectionLossIsSeenByTheServerFirst(t, db, p, q, func(ctx context.Context) (uint64, error) {
			return holder(ctx, db, "seat")
		})
	})
}

func TestEndedContextKeepsLock(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, network := engine(t), locktest.NewNetwork()
		db := mysqlstore.Pool(t, where, nil)
		mysqlstore.Migrate(t, db, migration)
		p, q := start(t, mysqlstore.Pool(t, where, network), time.Minute), start(t, db, time.Minute)
		mysqlstore.EndedContextKeepsLock(t, network, p, q)
	})
}

// A holder of one row does not block other keys, whatever the isolation level of the pool: it locks no gap. It leaves
// no transaction open.
func TestConnectionsGoBackClean(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, migration)
		l := start(t, db, time.Minute)
		one, err := l.Acquire(t.Context(), "b", lock.Options{})
		fail.NowIf(t, err)
		for _, key := range []string{"a", "bb", "c"} {
			lease, err := l.Acquire(t.Context(), key, lock.Options{})
			fail.NowIf(t, err, "%q while %q is held", key, "b")
			fail.If(t, lease.Release(t.Context()))
		}
		fail.NowIf(t, one.Release(t.Context()))
		fail.If(t, testkit.NoTransaction(t.Context(), db, time.Second, "lock_for_update"), "a transaction is left open")
	})
}

// A row that another connection is creating or deleting is locked but has no holder. A try neither mistakes this for a
// holder nor gives up, however long its INSERT waits.
func TestRowInTheMakingIsNotHeld(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, migration)
		l := start(t, db, time.Minute)
		maker, err := db.BeginTx(t.Context(), nil)
		fail.NowIf(t, err)
		defer maker.Rollback() //nolint:errcheck // it has been committed unless the test failed
		fail.NowIf(t, fail.Of(maker.ExecContext(t.Context(), "INSERT INTO lock_for_update (name) VALUES ('seat')")))
		got := make(chan error, 1)
		go func() {
			lease, err := l.Acquire(t.Context(), "seat", lock.Options{})
			if err == nil {
				err = lease.Release(t.Context())
			}
			got <- err
		}()
		seen := make(map[string]bool) // waiting INSERTs: the first is cut short, a second one follows
		testkit.Until(t, "two INSERTs that wait", func() bool {
			waits, err := insertsThatWait(t.Context(), db)
			fail.NowIf(t, err)
			for _, id := range waits {
				seen[id] = true
			}
			return len(seen) >= 2
		})
		fail.NowIf(t, maker.Commit())
		fail.If(t, <-got, "acquiring and releasing")
	})
}

// insertsThatWait returns the connections of the locker's INSERTs that the server executes.
func insertsThatWait(ctx context.Context, db *sql.DB) ([]string, error) {
	return mysqlstore.Column(ctx, db, "SELECT id FROM information_schema.processlist"+
		" WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE 'INSERT IGNORE%'")
}

// A row that stays locked without a holder for as long as a try lasts, or until the caller's limit, is taken. The
// server is not unavailable.
func TestRowThatStaysLockedIsTaken(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, migration)
		const limit = 2 * time.Second
		l, patient := start(t, db, limit), start(t, db, time.Minute)
		fail.NowIf(t, fail.Of(db.ExecContext(t.Context(), "INSERT INTO lock_for_update (name) VALUES ('old seat')")))
		for key, statement := range map[string]string{
			"new seat": "INSERT INTO lock_for_update (name) VALUES ('new seat')",
			"old seat": "SELECT 1 FROM lock_for_update WHERE name = 'old seat' FOR UPDATE",
		} {
			other, err := db.BeginTx(t.Context(), nil)
			fail.NowIf(t, err)
			fail.NowIf(t, fail.Of(other.ExecContext(t.Context(), statement)))
			var buyers sync.WaitGroup
			for range 5 { // the limit may cut another statement of each short
				buyers.Go(func() {
					fail.Unless(t, fail.Of(l.Acquire(t.Context(), key, lock.Options{})), lock.ErrNotAcquired, "Acquire %q", key)
				})
				buyers.Go(func() {
					fail.Unless(t, fail.Of(patient.Acquire(t.Context(), key, lock.Options{Wait: limit})), lock.ErrNotAcquired, "Acquire %q with a limit", key)
				})
			}
			buyers.Wait()
			fail.If(t, other.Rollback())
			lease, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
			fail.NowIf(t, err, "Acquire %q afterwards", key)
			fail.If(t, lease.Release(t.Context()))
		}
	})
}
