// Package mysqlstore builds the locktest subject of a mechanism that keeps its locks in MySQL or MariaDB.
package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
	"seckill/migrations"
)

// Mechanism describes a mechanism to the suite.
type Mechanism struct {
	// Name is the name of the mechanism in policies.
	Name string
	// Migrations are the files under migrations/mysql that create its tables.
	Migrations []string
	// Open makes a locker on a pool. The prefix is for mechanisms whose names are outside the database. A locker that
	// implements io.Closer is closed before its pool.
	Open func(db *sql.DB, prefix string) (lock.Locker, error)
	// Store reads the database.
	Store func(db *sql.DB, prefix string) locktest.Store
	// Renewed is the lease that its watchdog renews, 0 if it has none.
	Renewed time.Duration
}

// Engines runs fn on MariaDB and on MySQL.
func Engines(t *testing.T, fn func(t *testing.T, engine func(testkit.TB) testkit.Database)) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) { t.Parallel(); fn(t, testkit.MariaDB) })
	t.Run("mysql", func(t *testing.T) { t.Parallel(); fn(t, testkit.MySQL) })
}

// Factory makes subjects on the test binary's shared server of an engine, each in its own database.
func (m Mechanism) Factory(engine func(testkit.TB) testkit.Database) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		where := engine(tb)
		db := Pool(tb, where, nil)
		Migrate(tb, db, m.Migrations...)
		prefix := testkit.KeyPrefix(tb)
		return locktest.Subject{
			Name: m.Name + " on " + where.Engine, Remote: true, Renewed: m.Renewed,
			Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
				return m.process(tb, where, network, prefix)
			},
			Store: m.Store(db, prefix),
		}
	}
}

func (m Mechanism) process(tb testing.TB, where testkit.Database, network *locktest.Network,
	prefix string) lock.Locker {
	tb.Helper()
	locker, err := m.Open(Pool(tb, where, network), prefix)
	return locktest.Opened(tb, locker, err)
}

// Pool opens the pool of one process, through network if that is not nil. As in the application, the driver puts
// parameters into the statements, so that each is one round trip. tb closes the pool.
func Pool(tb testing.TB, where testkit.Database, network *locktest.Network) *sql.DB {
	tb.Helper()
	config, err := mysql.ParseDSN(where.DSN)
	if err != nil {
		tb.Fatal(err)
	}
	config.InterpolateParams, config.Logger = true, &mysql.NopLogger{}
	if network != nil {
		config.DialFunc = network.Dial
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		tb.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(40) // the server has a few hundred connections for all parallel tests
	db.SetMaxIdleConns(20)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Migrate runs the project's migrations with these names, such as 0004_lock_rows.
func Migrate(tb testing.TB, db *sql.DB, names ...string) {
	tb.Helper()
	for _, name := range names {
		statement, err := migrations.Files.ReadFile("mysql/" + name + ".up.sql")
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := db.ExecContext(tb.Context(), string(statement)); err != nil {
			tb.Fatal(err)
		}
	}
}

// ConnectionLock returns the promises of a lock that the server gives to a connection, and takes back when the
// connection ends.
func ConnectionLock() locktest.Promises {
	return locktest.NoTokens().
		Except(locktest.Breaks("an owner waits for itself"), locktest.Reenters, locktest.LinearizableReentrant).
		Except(locktest.NotApplicable("no re-entry"), locktest.ReentryKeepsLease, locktest.InnerDoesNotShorten).
		Except(locktest.NotApplicable("nothing is renewed: the lock lasts as long as its connection"),
			locktest.RenewalIsRetried, locktest.RenewalEndsWithRelease, locktest.RenewsOnlyOwn, locktest.ToldBeforeOthersGetIn).
		Except(locktest.NotApplicable("the trial may stop a waiter before the statement that puts it in the server's queue"),
			locktest.ServesInOrder).
		Except(locktest.Breaks("a dead process closes its connection, which frees the lock"), locktest.AbandonedGrantStays).
		Except(locktest.NotApplicable("the holder's process keeps the lease, not the server"), locktest.KeepsGivenLease).
		Except(locktest.NotApplicable("the queue is in the server and has no deadlines"), locktest.QueueSurvivesPause).
		Except(locktest.Breaks("a frozen waiter whose connection is open gets the lock when its turn comes"),
			locktest.EvictsDeadWaiters).
		Except(locktest.NotApplicable("there is nothing else that a key could hold"), locktest.RefusesWrongKind)
}

// Rows makes the store of a mechanism that keeps its rows in lock_rows.
func Rows(mechanism string) func(db *sql.DB, prefix string) locktest.Store {
	return func(db *sql.DB, _ string) locktest.Store {
		const where = " WHERE mechanism = ? AND name = ?"
		exec := func(ctx context.Context, statement string, args ...any) error {
			_, err := db.ExecContext(ctx, statement, args...)
			return err
		}
		return locktest.Store{
			TTL: func(ctx context.Context, key string) (time.Duration, error) {
				var left sql.Null[int64]
				err := db.QueryRowContext(ctx, "SELECT TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires_at) FROM lock_rows"+where,
					mechanism, key).Scan(&left)
				switch {
				case errors.Is(err, sql.ErrNoRows):
					return 0, nil
				case err == nil && !left.Valid:
					return lock.NoExpiry, nil
				}
				return max(0, time.Duration(left.V)*time.Microsecond), err
			},
			Shorten: func(ctx context.Context, key string, ttl time.Duration) error {
				return exec(ctx, "UPDATE lock_rows SET expires_at = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND"+where+
					" AND expires_at IS NOT NULL", ttl.Microseconds(), mechanism, key)
			},
			Remove: func(ctx context.Context, key string) error {
				return exec(ctx, "DELETE FROM lock_rows"+where, mechanism, key)
			},
			Leftovers: func(ctx context.Context) ([]string, error) {
				return Column(ctx, db, "SELECT name FROM lock_rows")
			},
		}
	}
}

// Column returns the values of a query with one column.
func Column(ctx context.Context, db *sql.DB, query string, args ...any) ([]string, error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var values []string
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// Waits lists the statements that contain text and that wait in the server. It looks several times, because the process
// list may still contain a statement that has just been answered.
func Waits(ctx context.Context, db *sql.DB, text string) ([]string, error) {
	var waits []string
	for range 10 {
		var err error
		waits, err = Column(ctx, db, "SELECT CONCAT(id, ': ', info) FROM information_schema.processlist"+
			" WHERE db = DATABASE() AND id <> CONNECTION_ID() AND info LIKE ?", "%"+text+"%")
		if err != nil || len(waits) == 0 {
			return nil, err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return waits, nil
}

// KillHolder ends the connection that has a lock, if there is one, and returns when it no longer has the lock. holder
// returns the number of the connection, 0 if there is none. A busy MySQL forgets a connection some milliseconds before
// it frees what the connection had locked.
func KillHolder(ctx context.Context, db *sql.DB, holder func(context.Context) (uint64, error)) error {
	id, err := holder(ctx)
	if err != nil || id == 0 {
		return err
	}
	if err := kill(ctx, db, id); err != nil {
		return err
	}
	for {
		if now, err := holder(ctx); err != nil || now != id {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// kill ends a connection by its number and returns when the server no longer knows it.
func kill(ctx context.Context, db *sql.DB, id uint64) error {
	const noSuchThread = 1094
	for {
		_, err := db.ExecContext(ctx, fmt.Sprintf("KILL %d", id))
		if e, ok := errors.AsType[*mysql.MySQLError](err); ok && e.Number == noSuchThread {
			return nil
		}
		if err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// ConnectionLossIsSeenByTheServerFirst checks what happens when a holder's connection breaks: the server gives the lock
// to the next caller at once, and the holder continues until its next check. p and q are processes that check their
// connections when a holder asks; holder returns the connection that has the key "seat".
func ConnectionLossIsSeenByTheServerFirst(t *testing.T, db *sql.DB, p, q lock.Locker,
	holder func(context.Context) (uint64, error),
) {
	t.Helper()
	held, err := p.Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := holder(t.Context()); err != nil || id == 0 {
		t.Fatalf("held by connection %d, %v", id, err)
	}
	if err := KillHolder(t.Context(), db, holder); err != nil {
		t.Fatal(err)
	}
	next, err := q.Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := context.Cause(held.Context()); err != nil {
		t.Errorf("the holder was told %v before the next owner got the lock", err)
	}
	if err := held.Extend(t.Context(), 0); !errors.Is(err, lock.ErrLost) { // the check
		t.Errorf("Extend = %v, want ErrLost", err)
	}
	<-held.Lost()
	if cause := context.Cause(held.Context()); !errors.Is(cause, lock.ErrLost) {
		t.Errorf("the holder was told %v, want ErrLost", cause)
	}
	if err := held.Release(t.Context()); !errors.Is(err, lock.ErrLost) {
		t.Errorf("Release = %v, want ErrLost", err)
	}
	if err := next.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// EndedContextKeepsLock checks what happens when a holder extends its lease under a context that has ended, or that
// ends while the server answers: the outcome is unknown, and the lock stays with its holder. p is a process on network
// that checks its connections less often than the test lasts; q is another process.
func EndedContextKeepsLock(t *testing.T, network *locktest.Network, p, q lock.Locker) {
	t.Helper()
	held, err := p.Acquire(t.Context(), "seat", lock.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for name, before := range map[string]bool{"before": true, "during": false} {
		ctx, cancel := context.WithCancel(t.Context())
		if before {
			cancel()
		} else {
			network.LoseReply(1, locktest.Deliver, cancel)
		}
		switch err := held.Extend(ctx, lock.MaxTTL); {
		case err == nil && !before: // the answer was quicker
		case !errors.Is(err, lock.ErrUnavailable) || !errors.Is(err, context.Canceled):
			t.Errorf("Extend whose context ended %s it = %v, want ErrUnavailable", name, err)
		}
		select {
		case <-held.Lost():
			t.Fatalf("Extend whose context ended %s it gave the lock away: %v", name, context.Cause(held.Context()))
		default:
		}
		if _, err := q.Acquire(t.Context(), "seat", lock.Options{}); !errors.Is(err, lock.ErrNotAcquired) {
			t.Errorf("Acquire of another process = %v, want ErrNotAcquired", err)
		}
		if err := held.Extend(t.Context(), time.Minute); err != nil {
			t.Errorf("Extend after one whose context ended %s it = %v", name, err)
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Errorf("Release = %v", err)
	}
}
