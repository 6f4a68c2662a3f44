package getlock_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/getlock"
	"seckill/internal/lock/mysql/mysqlio"
	"seckill/internal/testkit"
)

// mechanism checks the connections of its holders this often.
func mechanism(check time.Duration) mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name: "mysql-get-lock",
		Open: func(db *sql.DB, prefix string) (lock.Locker, error) {
			return getlock.New(db, getlock.Config{Prefix: prefix, Config: mysqlio.Config{CheckEvery: check, Timeout: time.Minute}})
		},
		Store: func(db *sql.DB, prefix string) locktest.Store {
			return locktest.Store{
				Remove: func(ctx context.Context, key string) error {
					return mysqlstore.KillHolder(ctx, db, func(ctx context.Context) (uint64, error) { return holder(ctx, db, prefix, key) })
				},
				Leftovers: func(ctx context.Context) ([]string, error) {
					if id, err := holder(ctx, db, prefix, "seat"); err != nil || id != 0 {
						return []string{"a holder of seat"}, err
					}
					return mysqlstore.Waits(ctx, db, "SELECT GET_LOCK(")
				},
			}
		},
	}
}

// holder returns the connection that has a key, 0 if there is none.
func holder(ctx context.Context, db *sql.DB, prefix, key string) (uint64, error) {
	var id sql.Null[uint64]
	err := db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", getlock.Name(prefix, key)).Scan(&id)
	return id.V, err
}

func TestConformance(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		locktest.Run(t, mechanism(time.Second).Factory(engine), promises())
	})
}

func promises() locktest.Promises {
	return mysqlstore.ConnectionLock().
		Except(locktest.Breaks("the server lets a connection acquire again, but every lease has its own"),
			locktest.Reenters, locktest.LinearizableReentrant).
		Except(locktest.Breaks("the server knows a connection and not an owner"), locktest.NamesHolder,
			locktest.SaysWhoHolds).
		Except(locktest.Breaks("in another process Inspect names a connection and not an owner"), locktest.FollowsModel)
}
