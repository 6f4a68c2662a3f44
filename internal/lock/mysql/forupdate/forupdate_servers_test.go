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

const migration = "0005_lock_for_update"

// mechanism checks the connections of its holders this often.
func mechanism(check time.Duration) mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name:       "mysql-for-update",
		Migrations: []string{migration},
		Open: func(db *sql.DB, _ string) (lock.Locker, error) {
			return forupdate.New(db, forupdate.Config{Config: mysqlio.Config{CheckEvery: check, Timeout: time.Minute}})
		},
		Store: func(db *sql.DB, _ string) locktest.Store {
			return locktest.Store{
				Remove: func(ctx context.Context, key string) error {
					return mysqlstore.KillHolder(ctx, db, func(ctx context.Context) (uint64, error) { return holder(ctx, db, key) })
				},
				Leftovers: func(ctx context.Context) ([]string, error) {
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

// holder returns the connection that the holder has written, 0 if there is none.
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
		locktest.Run(t, mechanism(time.Second).Factory(engine), promises())
	})
}

func promises() locktest.Promises {
	return mysqlstore.ConnectionLock().
		Except(locktest.NotApplicable("the engine chooses among the waiters, so no order is claimed"),
			locktest.ServesInOrderAcrossProcesses).
		Except(locktest.Breaks("the lock of a dead holder is free at once"), locktest.FollowsModel)
}
