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

func TestMain(m *testing.M) { testkit.Main(m) }

// renewed is the watchdog's lease in the suite: long enough for a busy machine.
const renewed = 1500 * time.Millisecond

func bare() mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name:       "mysql-row",
		Migrations: []string{"0004_lock_rows"},
		Open:       func(db *sql.DB, _ string) (lock.Locker, error) { return row.New(db, row.Config{}) },
		Store:      mysqlstore.Rows("row"),
	}
}

func expiring() mysqlstore.Mechanism {
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
		locktest.Run(t, bare().Factory(engine), barePromises())
	})
}

func TestConformanceWithExpiry(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		locktest.Run(t, expiring().Factory(engine), promises())
	})
}

// promises are those of rows with an end.
func promises() locktest.Promises {
	p := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		p[b] = locktest.Holds()
	}
	for _, b := range []locktest.Behaviour{locktest.ServesInOrder, locktest.ServesInOrderAcrossProcesses, locktest.QueueSurvivesPause} {
		p[b] = locktest.Breaks("whoever asks at the right moment gets in")
	}
	for _, b := range []locktest.Behaviour{locktest.Reenters, locktest.LinearizableReentrant} {
		p[b] = locktest.Breaks("an owner waits for itself")
	}
	for _, b := range []locktest.Behaviour{
		locktest.TokensGrow, locktest.TokenStaysOnReentry, locktest.TokensOutliveLock, locktest.LinearizableFenced,
	} {
		p[b] = locktest.Breaks("no tokens: a counter would not outlive its row")
	}
	p[locktest.QueueSurvivesPause] = locktest.NotApplicable("there is no queue")
	p[locktest.EvictsDeadWaiters] = locktest.NotApplicable("a waiter that dies with its INSERT under way may get the row with it")
	p[locktest.ReentryKeepsLease] = locktest.NotApplicable("no re-entry")
	p[locktest.WakesByMessage] = locktest.Breaks("waiters poll")
	p[locktest.RefusesWrongKind] = locktest.NotApplicable("each mechanism has its part of the table, and nothing else fits in")
	return p
}

func barePromises() locktest.Promises {
	p := promises()
	for _, b := range []locktest.Behaviour{
		locktest.ExpiryLetsWaiterIn, locktest.KeepsGivenLease, locktest.LeaseRunsOut, locktest.FreedAfterDeath,
		locktest.ExtendsLease,
	} {
		p[b] = locktest.Breaks("no expiry")
	}
	for _, b := range []locktest.Behaviour{locktest.ToldWhenDeleted, locktest.ToldWhenStolen, locktest.ToldWhenExpired} {
		p[b] = locktest.Breaks("nobody tells the holder")
	}
	for _, b := range []locktest.Behaviour{
		locktest.RenewalIsRetried, locktest.RenewalEndsWithRelease, locktest.ToldBeforeOthersGetIn,
	} {
		p[b] = locktest.NotApplicable("no watchdog")
	}
	p[locktest.TellsExpiredFromLost] = locktest.Breaks("a lease cannot run out: a release made again succeeds")
	return p
}
