package forupdate_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/forupdate"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const migration = "0005_lock_for_update"

func mechanism() mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name:       "mysql-for-update",
		Migrations: []string{migration},
		Open: func(db *sql.DB, _ string) (lock.Locker, error) {
			return forupdate.New(db, forupdate.Config{Config: mysqlio.Config{CheckEvery: 20 * time.Millisecond}})
		},
		Store: func(db *sql.DB, _ string) locktest.Store {
			return locktest.Store{
				Remove: func(ctx context.Context, key string) error {
					id, err := holder(ctx, db, key)
					if err != nil || id == 0 {
						return err
					}
					return mysqlstore.Kill(ctx, db, id)
				},
				Left: func(ctx context.Context) ([]string, error) {
					rows, err := mysqlstore.Column(ctx, db, "SELECT name FROM lock_for_update")
					if err != nil {
						return nil, err
					}
					waits, err := mysqlstore.Waits(ctx, db, "SELECT 1 FROM lock_for_update%FOR UPDATE")
					return append(rows, waits...), err
				},
			}
		},
	}
}

// holder is the connection that has a key, as its transaction has written; 0: none.
func holder(ctx context.Context, db *sql.DB, key string) (uint64, error) {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted})
	if err != nil {
		return 0, err
	}
	defer tx.Rollback() //nolint:errcheck // it has only read
	var id sql.Null[uint64]
	err = tx.QueryRowContext(ctx, "SELECT MAX(connection) FROM lock_for_update WHERE name = ?", key).Scan(&id)
	return id.V, err
}

func TestConformance(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		locktest.Run(t, mechanism().Factory(engine), promises())
	})
}

func promises() locktest.Promises {
	p := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		p[b] = locktest.Holds()
	}
	for _, b := range []locktest.Behaviour{locktest.Reenters, locktest.LinearizableReentrant} {
		p[b] = locktest.Breaks("an owner waits for itself")
	}
	for _, b := range []locktest.Behaviour{
		locktest.TokensGrow, locktest.TokenStaysOnReentry, locktest.TokensOutliveLock, locktest.LinearizableFenced,
	} {
		p[b] = locktest.Breaks("no tokens")
	}
	for _, b := range []locktest.Behaviour{
		locktest.RenewalIsRetried, locktest.RenewalEndsWithRelease, locktest.ToldBeforeOthersGetIn,
	} {
		p[b] = locktest.NotApplicable("nothing is renewed: the lock lasts as long as its connection")
	}
	p[locktest.ServesInOrder] = locktest.NotApplicable("the trial may stop a waiter before the last of its statements, the one that puts it in the server's queue")
	p[locktest.ServesInOrderAcrossProcesses] = locktest.NotApplicable("the engine chooses among the waiters: their order is chance, and no claim")
	p[locktest.FollowsModel] = locktest.Breaks("the lock of a dead holder is free at once")
	p[locktest.ReentryKeepsLease] = locktest.NotApplicable("no re-entry")
	p[locktest.AbandonedGrantStays] = locktest.Breaks("a dead process closes its connection, and the lock goes with it")
	p[locktest.KeepsGivenLease] = locktest.NotApplicable("the server keeps no lease; the holder's process does")
	p[locktest.QueueSurvivesPause] = locktest.NotApplicable("the queue is the server's and has no deadlines")
	p[locktest.EvictsDeadWaiters] = locktest.Breaks("a waiter that does not move, and whose connection stands, is granted the lock when its turn comes")
	p[locktest.RefusesWrongKind] = locktest.NotApplicable("a row holds nothing but a lock")
	return p
}
