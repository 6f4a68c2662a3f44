package row_test

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// poolOf opens a pool with the defaults of a DSN: it prepares statements. foundRows selects how affected rows are
// counted.
func poolOf(t *testing.T, where testkit.Database, foundRows bool) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(where.DSN)
	fail.NowIf(t, err)
	config.ClientFoundRows = foundRows
	db, err := sql.Open("mysql", config.FormatDSN())
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func start(t *testing.T, db *sql.DB, config row.Config) *row.Locker {
	t.Helper()
	l, err := row.New(db, config)
	fail.NowIf(t, err)
	l.UndoFor(time.Minute)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// Of many callers that find an expired row exactly one takes it over, however the connection counts affected rows.
func TestOneTakesOverWhatExpired(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where := engine(t)
		mysqlstore.Migrate(t, poolOf(t, where, false), "0004_lock_rows")
		for _, foundRows := range []bool{false, true} {
			db := poolOf(t, where, foundRows)
			l := start(t, db, row.Config{Expiry: true})
			dead, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: time.Hour})
			fail.NowIf(t, err)
			lock.Abandon(dead)
			fail.NowIf(t, fail.Of(db.ExecContext(t.Context(), "UPDATE lock_rows SET expires_at = UTC_TIMESTAMP(6)")))
			var winners atomic.Int32
			var winner atomic.Pointer[lock.Lease]
			var all sync.WaitGroup
			begin := make(chan struct{})
			for range 8 {
				all.Go(func() {
					<-begin
					lease, err := l.Acquire(t.Context(), "seat", lock.Options{TTL: time.Hour})
					switch {
					case err == nil:
						winners.Add(1)
						winner.Store(&lease)
					case !errors.Is(err, lock.ErrNotAcquired):
						t.Errorf("Acquire = %v", err)
					}
				})
			}
			close(begin)
			all.Wait()
			fail.NowUnequal(t, winners.Load(), 1, "counting found rows %t: callers who took over the lock", foundRows)
			fail.If(t, (*winner.Load()).Release(t.Context()))
		}
	})
}

// One statement renews many leases. Only the holder whose row is gone is told.
func TestRenewsInOneStatement(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, "0004_lock_rows")
		l := start(t, db, row.Config{
			Expiry: true, WatchdogTimeout: 30 * time.Minute, RenewEvery: time.Second, RetryEvery: time.Second / 2,
		})
		leases := make(map[string]lock.Lease)
		for _, key := range []string{"a", "b", "c"} {
			lease, err := l.Acquire(t.Context(), key, lock.Options{})
			fail.NowIf(t, err)
			leases[key] = lease
		}
		if freed, err := l.ForceRelease(t.Context(), "b"); err != nil || !freed {
			t.Fatalf("ForceRelease = %t, %v", freed, err)
		}
		<-leases["b"].Lost()
		fail.Unless(t, context.Cause(leases["b"].Context()), lock.ErrExpired, "the holder")
		for _, key := range []string{"a", "c"} {
			fail.If(t, leases[key].Release(t.Context()), "%s", key)
		}
	})
}

// An extension that shortens a lease may have been carried out although its reply was lost. The holder then assumes no
// more than the shorter lease.
func TestShorteningWithoutReply(t *testing.T) {
	const short = 300 * time.Millisecond
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		where, network := engine(t), locktest.NewNetwork()
		db := mysqlstore.Pool(t, where, network)
		mysqlstore.Migrate(t, db, "0004_lock_rows")
		l := start(t, db, row.Config{Expiry: true})
		for name, cancelled := range map[string]bool{"reset": false, "cancelled": true} {
			held, err := l.Acquire(t.Context(), name, lock.Options{TTL: time.Hour})
			fail.NowIf(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			if cancelled {
				network.LoseReply(1, locktest.Silence, cancel)
			} else {
				network.LoseReply(1, locktest.Reset, nil)
			}
			err = held.Extend(ctx, short)
			if !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, context.Canceled) != cancelled {
				t.Errorf("%s: Extend without a reply = %v, want ErrUnavailable", name, err)
			}
			if left := held.Remaining(); left > short {
				t.Errorf("%s: the holder assumes %v", name, left)
			}
			<-held.Lost() // long before the hour is over
			cancel()
		}
	})
}
