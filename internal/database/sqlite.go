package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	// This package wraps modernc.org/sqlite, SQLite in Go. go.mod requires a newer version of that than the package
	// itself does.
	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
)

func openSQLite(c Config) (engine, error) {
	dsn, err := sqliteDSN(c)
	if err != nil {
		return engine{}, err
	}
	readers, err := sqlitePool(dsn, c.MaxReaders)
	if err != nil {
		return engine{}, err
	}
	writer, err := sqlitePool(dsn, 1)
	if err != nil {
		return engine{}, errors.Join(err, readers.Close())
	}
	return engine{
		name: "sqlite", readers: readers, writers: writer, admission: writer, singles: writer,
		// A deferred transaction that reads first and then writes fails at once if another one has written meanwhile,
		// however long the busy timeout is.
		begin:        "BEGIN IMMEDIATE",
		insertIgnore: "INSERT OR IGNORE ",
		dialector:    func(pool *sql.DB) gorm.Dialector { return sqlite.Dialector{Conn: pool} },
		useIndex:     "INDEXED BY %s",
		sweep: `DELETE FROM idempotency_keys WHERE rowid IN
			(SELECT rowid FROM idempotency_keys WHERE started_at < ? ORDER BY started_at LIMIT ?)`,
		migrator: func(ctx context.Context) (migrator, error) { return newSQLiteMigrator(ctx, writer) },
	}, nil
}

func checkSQLitePath(path string) error {
	switch {
	case strings.Contains(path, ":memory:") || strings.HasPrefix(path, "file:"):
		return fmt.Errorf("database: %q is not the path of an SQLite file", path)
	case strings.ContainsAny(path, "?\x00"):
		return fmt.Errorf("database: the SQLite path %q has a character with a meaning in a DSN", path)
	}
	return nil
}

// sqliteDSN names the file and the pragmas of each connection. The busy timeout comes first, since switching to the
// write-ahead log may already have to wait. With a write-ahead log, synchronous=NORMAL never corrupts the file. The
// last transactions can be missing after a power failure, but not after the death of the process.
func sqliteDSN(c Config) (string, error) {
	path, err := filepath.Abs(c.SQLite)
	if err != nil {
		return "", fmt.Errorf("database: %w", err)
	}
	pragmas := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", c.LockWait.Milliseconds()),
		"journal_mode(WAL)",
		"synchronous(NORMAL)",
		"foreign_keys(ON)",
	}}
	return path + "?" + pragmas.Encode(), nil
}

func sqlitePool(dsn string, size int) (*sql.DB, error) {
	pool, err := sql.Open(sqlite.DriverName, dsn)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}
