package database

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"maps"
	"net"
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
	galera := &cluster{log: c.Logger}
	readers, err := mysqlPool(config, galera, c.MaxReaders)
	if err != nil {
		return engine{}, err
	}
	// Without autocommit the first statement begins the transaction. That saves START TRANSACTION and its round trip.
	transactional := config.Clone()
	transactional.Params["autocommit"] = "0"
	// With several statements in one query, a whole transaction needs one round trip; see sendWithCommit. The price:
	// SQL injected into a statement could add a second statement. The statements here are constants, and the driver
	// escapes their parameters.
	transactional.MultiStatements = true
	forAdmission := c.MaxWriters / admissionShare
	writers, err := mysqlPool(transactional, galera, c.MaxWriters-forAdmission)
	if err != nil {
		return engine{}, errors.Join(err, readers.Close())
	}
	admission := writers
	if forAdmission > 0 {
		if admission, err = mysqlPool(transactional, galera, forAdmission); err != nil {
			return engine{}, errors.Join(err, readers.Close(), writers.Close())
		}
	}
	locks, err := mysqlPool(forLocks(config), galera, c.MaxLocks)
	if err != nil {
		return engine{}, errors.Join(err, readers.Close(), writers.Close(), admission.Close())
	}
	return engine{
		name: "mysql", readers: readers, writers: writers, admission: admission, singles: readers, locks: locks, batches: true, insertIgnore: "INSERT IGNORE ", galera: galera,
		dialector: func(pool *sql.DB) gorm.Dialector {
			// Only gorm's own migrations need the server's version.
			return mysqlgorm.New(mysqlgorm.Config{Conn: pool, SkipInitializeWithVersion: true})
		},
		useIndex: "FORCE INDEX (%s)",
		sweep:    "DELETE FROM idempotency_keys WHERE started_at < ? ORDER BY started_at LIMIT ?",
		migrator: func(ctx context.Context) (migrator, error) { return newMySQLMigrator(ctx, config, galera) },
	}, nil
}

// mysqlConfig parses the DSN and overrides what the code relies on:
//
//	UTC on both sides, strict SQL, utf8mb4
//	a statement commits by itself, changes any number of rows, and returns all of them; a COMMIT begins nothing
//	the driver puts the parameters into the statement; a prepared statement costs two more round trips
//	affected rows count the rows found, as SQLite counts them
//	one statement per query, except where openMySQL says otherwise
//	the server cannot ask for local files
func mysqlConfig(c Config) (*mysql.Config, error) {
	config, err := mysql.ParseDSN(c.MySQL)
	if err != nil {
		// The driver's error can quote a part of the DSN. After a misplaced character that part is the password.
		return nil, errors.New("database: invalid MySQL DSN; the form is user:password@tcp(host:3306)/name?option=value")
	}
	if config.DBName == "" {
		return nil, errors.New("database: the MySQL DSN does not name a database")
	}
	if c.TLS != nil {
		if config.TLSConfig != "" {
			return nil, errors.New("database: the option tls of the MySQL DSN and TLS settings are both given: want one of them")
		}
		config.TLS = c.TLS.Clone()
		if config.TLS.ServerName == "" && config.Net == "tcp" {
			config.TLS.ServerName, _, _ = net.SplitHostPort(config.Addr) // the DSN was parsed
		}
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
		return nil, errors.New("database: the read timeout must be longer than the lock wait; otherwise waiting for a row breaks the connection")
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
	// A server's defaults and its init_connect may say otherwise, and so may the DSN.
	relied := map[string]string{
		"autocommit":               "1",
		"completion_type":          "0",
		"sql_safe_updates":         "0",
		"unique_checks":            "1",
		"time_zone":                "'+00:00'",
		"sql_mode":                 "'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'",
		"innodb_lock_wait_timeout": strconv.Itoa(max(1, int((c.LockWait+time.Second-1)/time.Second))),
	}
	maps.DeleteFunc(config.Params, func(name, _ string) bool {
		name = strings.ToLower(name[strings.LastIndexAny(name, "@. ")+1:]) // of @@session.autocommit, or SESSION autocommit
		_, ours := relied[name]
		// The variable for the isolation level has a different name in each server, and not every server can set the
		// limit; see sessionConnector.
		return ours || name == "tx_isolation" || name == "transaction_isolation" || name == "sql_select_limit"
	})
	maps.Copy(config.Params, relied)
	return config, nil
}

// noLimit is the value of sql_select_limit with which a query returns all of its rows.
const noLimit = "18446744073709551615"

// forLocks returns the configuration of the connections on which the server itself lets a caller wait for a lock. Such
// a statement may wait longer than any other may take: as long as the lock mechanisms ask for at a time.
func forLocks(config *mysql.Config) *mysql.Config {
	locks := config.Clone()
	locks.ReadTimeout = lockWaitSlice + 10*time.Second
	locks.Params["innodb_lock_wait_timeout"] = strconv.Itoa(int(lockWaitSlice / time.Second))
	return locks
}

// lockWaitSlice is the longest wait for a lock in one statement.
const lockWaitSlice = 5 * time.Second

func orSet(value *time.Duration, standard time.Duration) {
	if *value == 0 {
		*value = standard
	}
}

func mysqlPool(config *mysql.Config, galera *cluster, size int) (*sql.DB, error) {
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, errors.New("database: the driver does not support an option of the MySQL DSN")
	}
	pool := sql.OpenDB(sessionConnector{connector, galera})
	pool.SetMaxOpenConns(size)
	pool.SetMaxIdleConns(size)
	return pool, nil
}

// driverLog sends to the log what the driver would print to standard error: broken connections, which the failed
// statement reports too.
type driverLog struct{ log *slog.Logger }

// Print implements [mysql.Logger].
func (l driverLog) Print(v ...any) { l.log.Debug("mysql driver", "message", v) }
