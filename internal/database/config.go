package database

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says which database to open, and how. Exactly one of MySQL and SQLite
// is given; every other zero value takes the default named beside it.
type Config struct {
	// MySQL is the DSN of a MySQL or MariaDB server, as go-sql-driver has it:
	// user:password@tcp(host:3306)/name. See mysqlConfig for what it cannot change.
	MySQL string
	// SQLite is the path of a file. A database in memory is refused: it has no
	// write-ahead log, and each connection would see one of its own.
	SQLite string

	// MaxReaders is how many connections serve everything outside a transaction.
	// Default 32 (SQLite: 4).
	MaxReaders int
	// MaxWriters is how many transactions run at once; more wait for their turn
	// in this process. Default 16. SQLite always has one.
	MaxWriters int
	// MaxLocks is how many connections locks may have that are kept in the
	// database. Default 24: two processes then stay below the 151 connections that a
	// server allows by default. Not with SQLite.
	MaxLocks int
	// ConnMaxLifetime is when a connection is replaced. Default 30 min.
	ConnMaxLifetime time.Duration
	// ConnMaxIdleTime is when an unused connection is closed. Default 5 min.
	ConnMaxIdleTime time.Duration

	// DialTimeout, ReadTimeout and WriteTimeout bound one step of talking to a
	// MySQL server, unless the DSN says otherwise. Default 5 s, 10 s and 10 s.
	DialTimeout, ReadTimeout, WriteTimeout time.Duration
	// LockWait is how long a statement waits for a row (SQLite: for the file)
	// that somebody else has locked. MySQL counts in whole seconds, rounded up.
	// Default 3 s.
	LockWait time.Duration
	// EndTimeout bounds a COMMIT or a ROLLBACK, neither of which ends with the
	// request that caused it. Default 5 s.
	EndTimeout time.Duration
	// MaxAttempts is how often a transaction is tried that loses to a deadlock or
	// a lock wait. Default 5.
	MaxAttempts int

	// SlowQuery is from when on a statement is logged as slow. Default 200 ms;
	// negative: never.
	SlowQuery time.Duration
	// Logger receives slow statements and repeated transactions. Default: nobody.
	Logger *slog.Logger
}

// Validate says what is wrong with a configuration. Its errors name no secret.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.MySQL == "" && c.SQLite == "":
		return errors.New("database: neither a MySQL DSN nor an SQLite file is given")
	case c.MySQL != "" && c.SQLite != "":
		return errors.New("database: both a MySQL DSN and an SQLite file are given")
	case min(c.MaxReaders, c.MaxWriters, c.MaxLocks, c.MaxAttempts) < 1:
		return fmt.Errorf("database: %d readers, %d writers, %d locks, %d attempts: each must be at least 1",
			c.MaxReaders, c.MaxWriters, c.MaxLocks, c.MaxAttempts)
	case min(c.ConnMaxLifetime, c.ConnMaxIdleTime, c.DialTimeout, c.ReadTimeout, c.WriteTimeout, c.LockWait, c.EndTimeout) < 0:
		return errors.New("database: a timeout is negative")
	}
	if c.MySQL != "" {
		_, err := mysqlConfig(c)
		return err
	}
	return checkSQLitePath(c.SQLite)
}

func (c Config) withDefaults() Config {
	readers := 32
	if c.SQLite != "" {
		readers = 4
	}
	c.MaxReaders = cmp.Or(c.MaxReaders, readers)
	c.MaxWriters = cmp.Or(c.MaxWriters, 16)
	c.MaxLocks = cmp.Or(c.MaxLocks, 24)
	c.ConnMaxLifetime = cmp.Or(c.ConnMaxLifetime, 30*time.Minute)
	c.ConnMaxIdleTime = cmp.Or(c.ConnMaxIdleTime, 5*time.Minute)
	c.DialTimeout = cmp.Or(c.DialTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 10*time.Second)
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 10*time.Second)
	c.LockWait = cmp.Or(c.LockWait, 3*time.Second)
	c.EndTimeout = cmp.Or(c.EndTimeout, 5*time.Second)
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 5)
	c.SlowQuery = cmp.Or(c.SlowQuery, 200*time.Millisecond)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
