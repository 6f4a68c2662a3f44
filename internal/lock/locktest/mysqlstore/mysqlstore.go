// Package mysqlstore builds the locktest subject of a mechanism that keeps its
// locks in MySQL or MariaDB.
package mysqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
	"seckill/migrations"
)

// Mechanism is what there is to know of one.
type Mechanism struct {
	// Name is its name in policies.
	Name string
	// Migrations are the files under migrations/mysql that make its tables.
	Migrations []string
	// Open makes a locker on a pool, with names under prefix where the mechanism
	// has names outside the database. A locker that is an io.Closer is closed
	// before its pool.
	Open func(db *sql.DB, prefix string) (lock.Locker, error)
	// Store looks into the database.
	Store func(db *sql.DB, prefix string) locktest.Store
	// Renewed is the lease that its watchdog renews.
	Renewed time.Duration
}

// Engines runs fn over MariaDB and over MySQL.
func Engines(t *testing.T, fn func(t *testing.T, engine func(testkit.TB) testkit.Database)) {
	t.Helper()
	t.Run("mariadb", func(t *testing.T) { fn(t, testkit.MariaDB) })
	t.Run("mysql", func(t *testing.T) { fn(t, testkit.MySQL) })
}

// Factory makes subjects on the test binary's shared server of an engine, each in a
// database of its own.
func (m Mechanism) Factory(engine func(testkit.TB) testkit.Database) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		where := engine(tb)
		db := Pool(tb, where, nil)
		Migrate(tb, db, m.Migrations...)
		prefix := testkit.KeyPrefix(tb)
		return locktest.Subject{
			Name: m.Name + " on " + where.Engine, Remote: true, Renewed: m.Renewed,
			Process: func(tb testing.TB, line *locktest.Line) lock.Locker { return m.process(tb, where, line, prefix) },
			Store:   m.Store(db, prefix),
		}
	}
}

func (m Mechanism) process(tb testing.TB, where testkit.Database, line *locktest.Line, prefix string) lock.Locker {
	tb.Helper()
	locker, err := m.Open(Pool(tb, where, line), prefix)
	if err != nil {
		tb.Fatal(err)
	}
	if c, ok := locker.(io.Closer); ok {
		tb.Cleanup(func() {
			if err := c.Close(); err != nil {
				tb.Errorf("closing a locker: %v", err)
			}
		})
	}
	return locker
}

// Pool opens the pool of one process, through line where that is not nil, as the
// application does: the driver puts parameters into the statements, so that each is
// one round trip. It is closed with tb.
func Pool(tb testing.TB, where testkit.Database, line *locktest.Line) *sql.DB {
	tb.Helper()
	config, err := mysql.ParseDSN(where.DSN)
	if err != nil {
		tb.Fatal(err)
	}
	config.InterpolateParams, config.Logger = true, &mysql.NopLogger{}
	if line != nil {
		config.DialFunc = line.Dial
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		tb.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(40) // the server has a few hundred for all that run at once
	db.SetMaxIdleConns(20)
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

// Migrate runs the project's own migrations of these names, such as 0004_lock_rows.
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

// Rows is the store of a mechanism that has its rows in lock_rows.
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
			Left: func(ctx context.Context) ([]string, error) {
				return Column(ctx, db, "SELECT name FROM lock_rows")
			},
		}
	}
}

// Column reads a query of one column.
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

// Waits lists the statements of the database that contain text and are at work on
// the server for longer than a moment, which those are that wait for a lock: one that
// has just been answered may still be listed.
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

// Kill ends a connection by its number and returns when the server has forgotten it.
func Kill(ctx context.Context, db *sql.DB, id uint64) error {
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
