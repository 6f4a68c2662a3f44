package row_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The rows of dead holders are deleted an hour after their leases ended, and no others: not those of leases, and not
// those without expiry.
func TestSweep(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, "0004_lock_rows")
		bare, expiring := start(t, db, row.Config{}), start(t, db, row.Config{Expiry: true})
		acquire := func(l *row.Locker, key string) lock.Lease {
			lease, err := l.Acquire(t.Context(), key, lock.Options{TTL: time.Minute})
			fail.NowIf(t, err)
			return lease
		}
		ended := func(key string, minutes int) {
			const end = "UPDATE lock_rows SET expires_at = UTC_TIMESTAMP(6) - INTERVAL ? MINUTE WHERE name = ?"
			fail.NowIf(t, fail.Of(db.ExecContext(t.Context(), end, minutes, key)))
		}
		live := acquire(expiring, "live")
		lock.Abandon(acquire(bare, "bare"))
		lock.Abandon(acquire(expiring, "recent"))
		ended("recent", 55)
		paused := acquire(expiring, "old 0")
		for n := range 5 {
			key := fmt.Sprint("old ", n)
			if n > 0 {
				lock.Abandon(acquire(expiring, key))
			}
			ended(key, 65)
		}
		for _, want := range []int64{2, 2, 1, 0} {
			if n, err := row.Sweep(t.Context(), db, 2); err != nil || n != want {
				t.Errorf("swept %d, %v; want %d", n, err, want)
			}
		}
		left, err := mysqlstore.Column(t.Context(), db, "SELECT name FROM lock_rows ORDER BY name")
		if want := []string{"bare", "live", "recent"}; err != nil || !slices.Equal(left, want) {
			t.Errorf("left are %q, %v; want %q", left, err, want)
		}
		fail.Unless(t, paused.Release(t.Context()), lock.ErrExpired, "a holder that was paused for that long")
		fail.If(t, errors.Join(live.Release(t.Context()), acquire(expiring, "old 1").Release(t.Context())))
	})
}

// A row that is taken over while it is swept stays.
func TestSweepSparesWhatIsTakenOver(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		db := mysqlstore.Pool(t, engine(t), nil)
		mysqlstore.Migrate(t, db, "0004_lock_rows")
		const dead = "INSERT INTO lock_rows VALUES ('row-expiry', 'seat', 'dead', '', UTC_TIMESTAMP(6) - INTERVAL 2 HOUR)"
		fail.NowIf(t, fail.Of(db.ExecContext(t.Context(), dead)))
		takeOver, err := db.BeginTx(t.Context(), nil)
		fail.NowIf(t, err)
		const next = "UPDATE lock_rows SET holder = 'next', expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
		fail.NowIf(t, fail.Of(takeOver.ExecContext(t.Context(), next)))
		swept := make(chan error, 1)
		go func() {
			n, err := row.Sweep(t.Context(), db, 10)
			if err == nil && n != 0 {
				err = fmt.Errorf("%d rows were swept", n)
			}
			swept <- err
		}()
		testkit.Until(t, "the sweep waits for the row", func() bool {
			waits, err := mysqlstore.Waits(t.Context(), db, "DELETE FROM lock_rows%")
			return err == nil && len(waits) > 0
		})
		fail.NowIf(t, takeOver.Commit())
		fail.If(t, <-swept)
		if left, err := mysqlstore.Column(t.Context(), db, "SELECT holder FROM lock_rows"); err != nil || !slices.Equal(left, []string{"next"}) {
			t.Errorf("left are %q, %v", left, err)
		}
	})
}
