package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"

	migratedb "github.com/golang-migrate/migrate/v4/database"
)

// sqliteMigrations is a driver of golang-migrate for SQLite. The one that comes with golang-migrate links a second copy
// of SQLite, which registers the same driver name and panics. This one is also stricter: a session is one transaction,
// so a process that dies in the middle has changed nothing.
type sqliteMigrations struct {
	ctx  context.Context
	conn *sql.Conn
}

var _ migratedb.Driver = (*sqliteMigrations)(nil)

// newSQLiteMigrator begins the transaction. The transaction is also the lock: no other process writes to the file
// meanwhile.
func newSQLiteMigrator(ctx context.Context, writer *sql.DB) (migrator, error) {
	conn, err := writer.Conn(ctx)
	if err != nil {
		return migrator{}, translate(ctx, err)
	}
	session := context.WithoutCancel(ctx)
	for _, statement := range []string{
		"BEGIN IMMEDIATE",
		"CREATE TABLE IF NOT EXISTS schema_migrations (version INTEGER NOT NULL, dirty BOOLEAN NOT NULL)",
	} {
		if _, err := conn.ExecContext(session, statement); err != nil {
			return migrator{}, errors.Join(translate(ctx, err), discard(conn))
		}
	}
	return migrator{&sqliteMigrations{session, conn}, func(ctx context.Context, done bool) error {
		if !done {
			return discard(conn) // rolls everything back
		}
		if _, err := conn.ExecContext(session, "COMMIT"); err != nil {
			return errors.Join(translate(ctx, err), discard(conn))
		}
		return conn.Close()
	}}, nil
}

// Run implements golang-migrate's Driver.
func (s *sqliteMigrations) Run(migration io.Reader) error {
	statements, err := io.ReadAll(migration)
	if err != nil {
		return err
	}
	return s.exec(string(statements))
}

// SetVersion implements golang-migrate's Driver.
func (s *sqliteMigrations) SetVersion(version int, dirty bool) error {
	if err := s.exec("DELETE FROM schema_migrations"); err != nil || version < 0 {
		return err
	}
	return s.exec("INSERT INTO schema_migrations (version, dirty) VALUES (?, ?)", version, dirty)
}

// Version implements golang-migrate's Driver.
func (s *sqliteMigrations) Version() (version int, dirty bool, err error) {
	err = s.conn.QueryRowContext(s.ctx, "SELECT version, dirty FROM schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, sql.ErrNoRows) {
		return migratedb.NilVersion, false, nil
	}
	return version, dirty, err
}

// Lock implements golang-migrate's Driver: the transaction is the lock.
func (s *sqliteMigrations) Lock() error { return nil }

// Unlock implements golang-migrate's Driver.
func (s *sqliteMigrations) Unlock() error { return nil }

// Close implements golang-migrate's Driver. migrator.finish ends the session.
func (s *sqliteMigrations) Close() error { return nil }

// Open implements golang-migrate's Driver. It is not used.
func (s *sqliteMigrations) Open(string) (migratedb.Driver, error) { return nil, errors.ErrUnsupported }

// Drop implements golang-migrate's Driver. It is not used.
func (s *sqliteMigrations) Drop() error { return errors.ErrUnsupported }

func (s *sqliteMigrations) exec(query string, args ...any) error {
	if _, err := s.conn.ExecContext(s.ctx, query, args...); err != nil {
		return fmt.Errorf("%w in %q", err, query)
	}
	return nil
}
