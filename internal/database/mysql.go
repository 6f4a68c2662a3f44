package database

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	mysqlgorm "gorm.io/driver/mysql"
	"gorm.io/gorm"
)

func openMySQL(c Config) (engine, error) {
	config, err := mysqlConfig(c)
	if err != nil {
		return engine{}, err
	}
	readers, err := mysqlPool(config, c.MaxReaders)
	if err != nil {
		return engine{}, err
	}
	// Without autocommit the first statement begins the transaction: START
	// TRANSACTION, and the round trip it costs, are not needed.
	transactional := config.Clone()
	transactional.Params["autocommit"] = "0"
	// A whole transaction can share a round trip; see sendWhole. The price is that a
	// text that got into a statement could bring a second one along. These texts are
	// constants, and the driver puts their parameters in.
	transactional.MultiStatements = true
	writers, err := mysqlPool(transactional, c.MaxWriters)
	if err != nil {
		return engine{}, errors.Join(err, readers.Close())
	}
	locks, err := mysqlPool(forLocks(config), c.MaxLocks)
	if err != nil {
		return engine{}, errors.Join(err, readers.Close(), writers.Close())
	}
	return engine{
		name: "mysql", readers: readers, writers: writers, singles: readers, locks: locks, batches: true,
		dialector: func(pool *sql.DB) gorm.Dialector {
			// The version is of interest to gorm's own migrations only.
			return mysqlgorm.New(mysqlgorm.Config{Conn: pool, SkipInitializeWithVersion: true})
		},
		sweep:    "DELETE FROM idempotency_keys WHERE started_at < ? ORDER BY started_at LIMIT ?",
		migrator: func(ctx context.Context) (migrator, error) { return newMySQLMigrator(ctx, config) },
	}, nil
}

// mysqlConfig reads the DSN and sets what the code relies on, whatever the DSN
// says: UTC on both sides, strict SQL, utf8mb4, parameters put into the statement
// by the driver (a prepared statement costs two round trips more), affected rows
// that count what was found (as SQLite counts), one statement per query (but see
// openMySQL), no files read at the server's wish.
func mysqlConfig(c Config) (*mysql.Config, error) {
	config, err := mysql.ParseDSN(c.MySQL)
	if err != nil {
		// The driver's error can quote a piece of the DSN, and with a misplaced
		// character that piece is the password.
		return nil, errors.New("database: the MySQL DSN cannot be read; it has the form user:password@tcp(host:3306)/name?option=value")
	}
	if config.DBName == "" {
		return nil, errors.New("database: the MySQL DSN names no database")
	}
	config.ParseTime, config.Loc = true, time.UTC
	config.InterpolateParams = true
	config.ClientFoundRows = true
	config.MultiStatements = false
	config.AllowAllFiles = false
	config.Logger = driverLog{c.Logger}
	orSet(&config.Timeout, c.DialTimeout)
	orSet(&config.ReadTimeout, c.ReadTimeout)
	orSet(&config.WriteTimeout, c.WriteTimeout)
	if config.ReadTimeout <= c.LockWait {
		return nil, errors.New("database: the read timeout must be longer than the lock wait, or waiting for a row breaks the connection")
	}
	if err := config.Apply(
		mysql.Charset("utf8mb4", ""),
		mysql.TimeTruncate(time.Microsecond),
	); err != nil {
		return nil, err
	}
	config.Params = maps.Clone(config.Params)
	if config.Params == nil {
		config.Params = make(map[string]string)
	}
	// The isolation level has another name in each server; see session.
	maps.DeleteFunc(config.Params, func(name, _ string) bool {
		return strings.HasSuffix(name, "tx_isolation") || strings.HasSuffix(name, "transaction_isolation")
	})
	maps.Copy(config.Params, map[string]string{
		"time_zone":                "'+00:00'",
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"innodb_lock_wait_timeout": strconv.Itoa(max(1, int((c.LockWait+time.Second-1)/time.Second))),
	})
	return config, nil
}

// forLocks is the configuration of connections on which the server itself lets a
// caller wait for a lock: longer than any statement may take, and no longer than the
// lock mechanisms ask it to at a time.
func forLocks(config *mysql.Config) *mysql.Config {
	locks := config.Clone()
	locks.ReadTimeout = lockWaitSlice + 10*time.Second
	locks.Params["innodb_lock_wait_timeout"] = strconv.Itoa(int(lockWaitSlice / time.Second))
	return locks
}

// lockWaitSlice is how long the server lets a caller wait at a time.
const lockWaitSlice = 5 * time.Second

func orSet(value *time.Duration, standard time.Duration) {
	if *value == 0 {
		*value = standard
	}
}

func mysqlPool(config *mysql.Config, size int) (*sql.DB, error) {
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, errors.New("database: the MySQL DSN asks for what the driver cannot do")
	}
	pool := sql.OpenDB(session{connector})
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}

// session makes every connection READ COMMITTED. That is done by statement
// because the variable is called tx_isolation in one server and
// transaction_isolation in another.
type session struct{ driver.Connector }

// Connect implements [driver.Connector].
func (s session) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := s.Connector.Connect(ctx)
	if err != nil {
		return nil, notConnected(err)
	}
	const isolation = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
	if _, err := conn.(driver.ExecerContext).ExecContext(ctx, isolation, nil); err != nil {
		return nil, notConnected(errors.Join(err, conn.Close()))
	}
	return conn, nil
}

func notConnected(err error) error {
	if _, refused := errors.AsType[*mysql.MySQLError](err); refused {
		return err
	}
	return fmt.Errorf("%w: %w", errNotConnected, err)
}

// driverLog sends what the driver would print to standard error to the log. It
// speaks of connections that broke, which the failed statement reports as well.
type driverLog struct{ log *slog.Logger }

// Print implements [mysql.Logger].
func (l driverLog) Print(v ...any) { l.log.Debug("mysql driver", "message", v) }
