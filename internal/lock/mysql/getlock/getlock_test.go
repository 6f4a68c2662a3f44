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

func TestMain(m *testing.M) { testkit.Main(m) }

func mechanism() mysqlstore.Mechanism {
	return mysqlstore.Mechanism{
		Name: "mysql-get-lock",
		Open: func(db *sql.DB, prefix string) (lock.Locker, error) {
			return getlock.New(db, getlock.Config{Prefix: prefix, Config: mysqlio.Config{CheckEvery: 20 * time.Millisecond}})
		},
		Store: func(db *sql.DB, prefix string) locktest.Store {
			return locktest.Store{
				Remove: func(ctx context.Context, key string) error {
					id, err := holder(ctx, db, prefix, key)
					if err != nil || id == 0 {
						return err
					}
					return mysqlstore.Kill(ctx, db, id)
				},
				Left: func(ctx context.Context) ([]string, error) {
					if id, err := holder(ctx, db, prefix, "seat"); err != nil || id != 0 {
						return []string{"a holder of seat"}, err
					}
					return mysqlstore.Waits(ctx, db, "SELECT GET_LOCK(")
				},
			}
		},
	}
}

// holder is the connection that has a key; 0: none.
func holder(ctx context.Context, db *sql.DB, prefix, key string) (uint64, error) {
	var id sql.Null[uint64]
	err := db.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", getlock.Name(prefix, key)).Scan(&id)
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
		p[b] = locktest.Breaks("the server lets a connection in again, and every lease has another one")
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
	p[locktest.NamesHolder] = locktest.Breaks("the server knows a connection, not an owner")
	p[locktest.SaysWhoHolds] = locktest.Breaks("the server knows a connection, not an owner")
	p[locktest.FollowsModel] = locktest.Breaks("asked who holds, another process names a connection, not an owner")
	p[locktest.ServesInOrder] = locktest.NotApplicable("the trial may stop a waiter before the last of its statements, the one that puts it in the server's queue")
	p[locktest.ReentryKeepsLease] = locktest.NotApplicable("no re-entry")
	p[locktest.AbandonedGrantStays] = locktest.Breaks("a dead process closes its connection, and the lock goes with it")
	p[locktest.KeepsGivenLease] = locktest.NotApplicable("the server keeps no lease; the holder's process does")
	p[locktest.QueueSurvivesPause] = locktest.NotApplicable("the queue is the server's and has no deadlines")
	p[locktest.EvictsDeadWaiters] = locktest.Breaks("a waiter that does not move, and whose connection stands, is granted the lock when its turn comes")
	p[locktest.RefusesWrongKind] = locktest.NotApplicable("a name holds nothing but a lock")
	return p
}
