package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	migratedb "github.com/golang-migrate/migrate/v4/database"
	migratemysql "github.com/golang-migrate/migrate/v4/database/mysql"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"seckill/migrations"
)

// Migration is the result of a migration.
type Migration struct {
	// From and To are the versions of the schema before and after; 0 is an empty database.
	From, To uint
}

// migrator is an exclusive session for migrations.
type migrator struct {
	migratedb.Driver
	// finish ends the session and lets the next process in. It keeps what was done or, if done is false and the engine
	// can, rolls it back.
	finish func(ctx context.Context, done bool) error
}

// Migrate brings the schema up to date. Several processes may call it at once: one does the work, the others wait until
// it is done or ctx ends. When ctx ends, the running migration is still completed. A server that takes no writes is
// [ErrUnsuitable], even if no migration is missing.
func (d *DB) Migrate(ctx context.Context) (Migration, error) {
	if err := d.checkServer(ctx); err != nil {
		return Migration{}, err
	}
	return d.migrate(ctx, (*migrate.Migrate).Up)
}

// MigrateDown removes the whole schema, with all data.
func (d *DB) MigrateDown(ctx context.Context) (Migration, error) {
	return d.migrate(ctx, (*migrate.Migrate).Down)
}

func (d *DB) migrate(ctx context.Context, direction func(*migrate.Migrate) error) (m Migration, err error) {
	var session migrator
	open := func() error {
		return d.retry(ctx, func() (err error) { session, err = d.migrator(ctx); return err })
	}
	if err := d.awaitConnection(ctx, open); err != nil {
		return Migration{}, fmt.Errorf("database: migrate: %w", err)
	}
	defer func() {
		if e := session.finish(ctx, err == nil); e != nil {
			err = errors.Join(err, fmt.Errorf("database: migrate: %w", e))
		}
	}()
	files, err := iofs.New(migrations.Files, d.name)
	if err != nil {
		return Migration{}, fmt.Errorf("database: migrate: %w", err)
	}
	runner, err := migrate.NewWithInstance("embedded", files, d.name, session)
	if err != nil {
		return Migration{}, fmt.Errorf("database: migrate: %w", err)
	}
	runner.Log = migrationLog{d.config.Logger}
	defer context.AfterFunc(ctx, func() { runner.GracefulStop <- true })()

	if m.From, err = version(runner); err != nil {
		return m, err
	}
	if err := direction(runner); err != nil && !errors.Is(err, migrate.ErrNoChange) {
		return m, fmt.Errorf("database: migrate from version %d: %w", m.From, translate(ctx, err))
	}
	if m.To, err = version(runner); err != nil {
		return m, err
	}
	return m, ctx.Err()
}

func version(runner *migrate.Migrate) (uint, error) {
	v, dirty, err := runner.Version()
	switch {
	case errors.Is(err, migrate.ErrNilVersion):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("database: version of the schema: %w", err)
	case dirty:
		return v, fmt.Errorf("database: migration %d was interrupted: check how far it got, complete it or revert it by hand, and correct the table schema_migrations", v)
	}
	return v, nil
}

// newMySQLMigrator opens a connection of its own, which allows several statements in one query and has no read timeout.
func newMySQLMigrator(ctx context.Context, config *mysqldriver.Config, galera *cluster) (migrator, error) {
	config = config.Clone()
	config.MultiStatements = true
	config.ReadTimeout = 0
	pool, err := mysqlPool(config, galera, 2) // the second connection is for a clusterLock
	if err != nil {
		return migrator{}, err
	}
	session, err := lockedMySQLMigrator(ctx, pool, config.DBName, galera)
	if err != nil {
		return migrator{}, errors.Join(translate(ctx, err), pool.Close())
	}
	return session, nil
}

// lockedMySQLMigrator waits for a lock (GET_LOCK) that belongs to the connection, and so also ends when the process
// dies. The nodes of a Galera cluster do not share such locks, so there it waits for a [clusterLock] too.
// golang-migrate's own lock is switched off: it gives up after ten seconds, whatever the context says.
func lockedMySQLMigrator(ctx context.Context, pool *sql.DB, name string, galera *cluster) (migrator, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return migrator{}, err
	}
	lock := fmt.Sprintf("seckill-migrate-%08x", crc32.ChecksumIEEE([]byte(name)))
	for taken := false; !taken; {
		// GET_LOCK returns NULL for an error of the server, and scanning NULL fails.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1)", lock).Scan(&taken); err != nil {
			return migrator{}, errors.Join(err, conn.Close())
		}
	}
	var shared *clusterLock
	free := func() error { return nil }
	if galera.member.Load() {
		shared = newClusterLock(pool)
		if err := shared.take(ctx); err != nil {
			return migrator{}, errors.Join(err, conn.Close())
		}
		free = shared.keep(ctx)
	}
	driver, err := migratemysql.WithConnection(ctx, conn, &migratemysql.Config{DatabaseName: name, NoLock: true})
	if err != nil {
		return migrator{}, errors.Join(err, free(), conn.Close())
	}
	if galera.gate.Load() {
		if err := awaitTracking(ctx, conn); err != nil {
			return migrator{}, errors.Join(err, free(), conn.Close())
		}
	}
	finish := func(context.Context, bool) error { return errors.Join(free(), driver.Close(), pool.Close()) }
	if shared != nil {
		return migrator{clusterMigrations{driver, shared}, finish}, nil
	}
	return migrator{driver, finish}, nil
}

// migrationLog is golang-migrate's logger.
type migrationLog struct{ log *slog.Logger }

// Printf implements [migrate.Logger].
func (l migrationLog) Printf(format string, v ...any) {
	l.log.Info("migration", "progress", strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// Verbose implements [migrate.Logger].
func (l migrationLog) Verbose() bool { return false }
