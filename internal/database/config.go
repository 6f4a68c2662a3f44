package database

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Config says which database to open, and how. Exactly one of MySQL and SQLite must be set. Any other field with a zero
// value takes the default named beside it.
type Config struct {
	// MySQL is the DSN of a MySQL or MariaDB server, in the form of go-sql-driver: user:password@tcp(host:3306)/name.
	// See mysqlConfig for the settings that it cannot change.
	MySQL string
	// SQLite is the path of a file. A database in memory is refused: it has no write-ahead log, and each connection
	// would have a database of its own.
	SQLite string

	// TLS encrypts the connections to MySQL, and decides whom to trust. nil: the DSN says.
	TLS *tls.Config

	// MaxReaders is the number of connections for everything outside a transaction. Default 32 (SQLite: 4).
	MaxReaders int
	// MaxWriters is the number of concurrent transactions; more of them queue in this process. A quarter of them is for
	// the [AdmissionStore]. Default 16. SQLite always has one.
	MaxWriters int
	// MaxLocks is the number of connections for locks that are kept in the database. Default 24: two processes then
	// stay below the 151 connections that a server allows by default. Unused with SQLite.
	MaxLocks int
	// ConnMaxLifetime is the age at which a connection is replaced. Default 30 min.
	ConnMaxLifetime time.Duration
	// ConnMaxIdleTime is how long an unused connection stays open. Default 5 min.
	ConnMaxIdleTime time.Duration

	// DialTimeout, ReadTimeout and WriteTimeout bound one network operation with a MySQL server, unless the DSN says
	// otherwise. Default 5 s, 10 s and 10 s.
	DialTimeout, ReadTimeout, WriteTimeout time.Duration
	// LockWait is how long a statement waits for a row (SQLite: for the file) that another transaction has locked.
	// MySQL counts in whole seconds, rounded up. Default 3 s.
	LockWait time.Duration
	// EndTimeout bounds a COMMIT or a ROLLBACK. Neither of them ends with the request that caused it. Default 5 s.
	EndTimeout time.Duration
	// MaxAttempts bounds how often a transaction runs that fails with a deadlock or a lock wait timeout. On a Galera
	// cluster it is multiplied by four, for 5 s. Default 5.
	MaxAttempts int

	// SlowQuery is the duration from which a statement is logged as slow. Default 200 ms; negative: never.
	SlowQuery time.Duration
	// Logger receives slow statements and repeated transactions. Default: no log.
	Logger *slog.Logger
}

// The default numbers of connections to MySQL.
const (
	DefaultReaders = 32
	DefaultWriters = 16
	DefaultLocks   = 24
)

// admissionShare: one in so many of the writers is for admission.
const admissionShare = 4

// Validate returns what is wrong with a configuration. Its errors show no secret.
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
	readers := DefaultReaders
	if c.SQLite != "" {
		readers = 4
	}
	c.MaxReaders = cmp.Or(c.MaxReaders, readers)
	c.MaxWriters = cmp.Or(c.MaxWriters, DefaultWriters)
	c.MaxLocks = cmp.Or(c.MaxLocks, DefaultLocks)
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
