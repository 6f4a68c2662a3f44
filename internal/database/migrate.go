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

// Migration is what became of the schema.
type Migration struct {
	// From and To are the numbers of the newest migration before and after. 0:
	// none.
	From, To uint
}

// migrator is one exclusive session of migrating.
type migrator struct {
	migratedb.Driver
	// finish ends the session: keeps what was done, or undoes it where the
	// engine can, and lets the next one in.
	finish func(ctx context.Context, done bool) error
}

// Migrate brings the schema up to date. Several processes may do so at once: one
// does the work, the others wait, until ctx ends, and find it done. When ctx ends
// the migration at work is still completed.
func (d *DB) Migrate(ctx context.Context) (Migration, error) {
	return d.migrate(ctx, (*migrate.Migrate).Up)
}

// MigrateDown takes the whole schema back, and all data with it.
func (d *DB) MigrateDown(ctx context.Context) (Migration, error) {
	return d.migrate(ctx, (*migrate.Migrate).Down)
}

func (d *DB) migrate(ctx context.Context, direction func(*migrate.Migrate) error) (m Migration, err error) {
	var session migrator
	if err := d.repeat(ctx, func() (err error) { session, err = d.migrator(ctx); return err }); err != nil {
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
		return v, fmt.Errorf("database: migration %d was interrupted: see how far it came, finish it or take it back by hand, and correct the table schema_migrations", v)
	}
	return v, nil
}

// newMySQLMigrator opens a connection of its own: it takes several statements at
// once, which those of the pools must not, and no statement is too long for it.
func newMySQLMigrator(ctx context.Context, config *mysqldriver.Config) (migrator, error) {
	config = config.Clone()
	config.MultiStatements = true
	config.ReadTimeout = 0
	pool, err := mysqlPool(config, 1)
	if err != nil {
		return migrator{}, err
	}
	session, err := lockedMySQLMigrator(ctx, pool, config.DBName)
	if err != nil {
		return migrator{}, errors.Join(translate(ctx, err), pool.Close())
	}
	return session, nil
}

// lockedMySQLMigrator waits for its turn. golang-migrate's own lock is switched
// off: it gives up after ten seconds, whatever the context says. The lock belongs
// to the connection and so ends with it, also when the process dies.
func lockedMySQLMigrator(ctx context.Context, pool *sql.DB, name string) (migrator, error) {
	conn, err := pool.Conn(ctx)
	if err != nil {
		return migrator{}, err
	}
	lock := fmt.Sprintf("seckill-migrate-%08x", crc32.ChecksumIEEE([]byte(name)))
	for taken := false; !taken; {
		// Scanning NULL, which stands for an error of the server's, fails.
		if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 1)", lock).Scan(&taken); err != nil {
			return migrator{}, errors.Join(err, conn.Close())
		}
	}
	driver, err := migratemysql.WithConnection(ctx, conn, &migratemysql.Config{DatabaseName: name, NoLock: true})
	if err != nil {
		return migrator{}, errors.Join(err, conn.Close())
	}
	return migrator{driver, func(context.Context, bool) error {
		return errors.Join(driver.Close(), pool.Close())
	}}, nil
}

// migrationLog is golang-migrate's logger.
type migrationLog struct{ log *slog.Logger }

// Printf implements [migrate.Logger].
func (l migrationLog) Printf(format string, v ...any) {
	l.log.Info("migration", "progress", strings.TrimSpace(fmt.Sprintf(format, v...)))
}

// Verbose implements [migrate.Logger].
func (l migrationLog) Verbose() bool { return false }
