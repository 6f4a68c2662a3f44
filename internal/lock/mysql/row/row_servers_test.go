package row_test

import (
	"database/sql"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
)

func bare() mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name:       "mysql-row",
		Migrations: []string{"0004_lock_rows"},
		Open:       func(db *sql.DB, _ string) (lock.Locker, error) { return row.New(db, row.Config{}) },
		Store:      mysqlstore.Rows("row"),
	}
}

// expiring has leases that are renewed for this long.
func expiring(renewed time.Duration) mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name:       "mysql-row-expiry",
		Migrations: []string{"0004_lock_rows"}, Renewed: renewed,
		Open: func(db *sql.DB, _ string) (lock.Locker, error) {
			return row.New(db, row.Config{Expiry: true, WatchdogTimeout: renewed})
		},
		Store: mysqlstore.Rows("row-expiry"),
	}
}

func TestConformance(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		// Without the end of a lease, which is for soak, the release tells.
		locktest.Run(t, bare().Factory(engine), barePromises().Except(locktest.Holds(), locktest.TellsExpiredFromLost))
	})
}

func TestConformanceWithExpiry(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		locktest.Run(t, expiring(30*time.Minute).Factory(engine), promises())
	})
}

// promises are those of rows with expiry.
func promises() locktest.Promises {
	return locktest.Polling().
		Except(locktest.Breaks("no tokens: a counter would be deleted with its row"),
			locktest.TokensGrow, locktest.TokenStaysOnReentry, locktest.TokensOutliveLock, locktest.LinearizableFenced).
		Except(locktest.NotApplicable("there is no queue"), locktest.QueueSurvivesPause).
		Except(locktest.NotApplicable("the INSERT of a waiter that dies may still be carried out and take the row"),
			locktest.EvictsDeadWaiters).
		Except(locktest.NotApplicable("each mechanism has its part of the table, and the table has only locks"),
			locktest.RefusesWrongKind)
}

func barePromises() locktest.Promises {
	return promises().
		Except(locktest.Breaks("no expiry"), locktest.ExpiryLetsWaiterIn, locktest.KeepsGivenLease, locktest.LeaseRunsOut,
			locktest.FreedAfterDeath, locktest.ExtendsLease).
		Except(locktest.Breaks("nothing tells the holder"), locktest.ToldWhenDeleted, locktest.ToldWhenStolen,
			locktest.ToldWhenExpired).
		Except(locktest.NotApplicable("no watchdog"),
			locktest.RenewalIsRetried, locktest.RenewalEndsWithRelease, locktest.RenewsOnlyOwn, locktest.ToldBeforeOthersGetIn).
		Except(locktest.Breaks("a lease cannot run out, so a repeated release succeeds"), locktest.TellsExpiredFromLost)
}
