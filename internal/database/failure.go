package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"

	gosqlite "github.com/glebarez/go-sqlite"
	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// errDuplicate: a unique index or a primary key refused a row.
var errDuplicate = errors.New("database: duplicate row")

// errNotConnected: no connection came about, for another reason than that the server
// refused it. The driver has errors for this that only their text tells.
var errNotConnected = errors.New("database: not connected")

// failure is what an error means, whichever database it came from.
type failure int

const (
	unknown     failure = iota
	duplicate           // a unique index refused the row
	depleted            // the stock would have gone below 0
	collision           // a deadlock or a lock wait: the same again may well succeed
	unreachable         // the server is gone, full, or not taking connections
)

// mysqlFailures reads the numbers of MySQL and MariaDB.
var mysqlFailures = map[uint16]failure{
	1062: duplicate, // ER_DUP_ENTRY

	1264: depleted, // ER_WARN_DATA_OUT_OF_RANGE: a negative value for an unsigned column
	1690: depleted, // ER_DATA_OUT_OF_RANGE: an unsigned expression went below 0
	3819: depleted, // ER_CHECK_CONSTRAINT_VIOLATED, MySQL
	4025: depleted, // ER_CONSTRAINT_FAILED, MariaDB

	1020: collision, // ER_CHECKREAD: changed since it was read, MariaDB
	1205: collision, // ER_LOCK_WAIT_TIMEOUT: rolled back the statement only
	1213: collision, // ER_LOCK_DEADLOCK: rolled back the transaction

	1021: unreachable, // ER_DISK_FULL
	1040: unreachable, // ER_CON_COUNT_ERROR: too many connections
	1041: unreachable, // ER_OUT_OF_RESOURCES
	1047: unreachable, // ER_UNKNOWN_COM_ERROR: what a Galera node says that is not ready
	1053: unreachable, // ER_SERVER_SHUTDOWN
	1158: unreachable, // ER_NET_READ_ERROR
	1159: unreachable, // ER_NET_READ_INTERRUPTED
	1160: unreachable, // ER_NET_ERROR_ON_WRITE
	1161: unreachable, // ER_NET_WRITE_INTERRUPTED
	1203: unreachable, // ER_TOO_MANY_USER_CONNECTIONS
	1226: unreachable, // ER_USER_LIMIT_REACHED
	1290: unreachable, // ER_OPTION_PREVENTS_STATEMENT: read-only, as after a failover
	1317: unreachable, // ER_QUERY_INTERRUPTED
	1836: unreachable, // ER_READ_ONLY_MODE
	1927: unreachable, // ER_CONNECTION_KILLED, MariaDB
	1969: unreachable, // ER_STATEMENT_TIMEOUT, MariaDB
	3024: unreachable, // ER_QUERY_TIMEOUT, MySQL
	4031: unreachable, // ER_CLIENT_INTERACTION_TIMEOUT, MySQL
}

// SQLite's result codes: the low byte is the primary code, the rest says more.
// https://www.sqlite.org/rescode.html
const (
	sqliteBusy      = 5
	sqliteLocked    = 6
	sqliteInterrupt = 9
	sqliteIOErr     = 10
	sqliteFull      = 13
	sqliteCantOpen  = 14
	sqliteProtocol  = 15

	sqliteConstraintCheck      = 19 | 1<<8
	sqliteConstraintPrimaryKey = 19 | 6<<8
	sqliteConstraintUnique     = 19 | 8<<8
	sqliteConstraintRowID      = 19 | 10<<8
)

// failureOf reads an error by its type and number, never by its text.
func failureOf(err error) failure {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return mysqlFailures[e.Number]
	}
	if e, ok := errors.AsType[*gosqlite.Error](err); ok {
		return sqliteFailure(e.Code())
	}
	if _, ok := errors.AsType[net.Error](err); ok || slices.ContainsFunc([]error{
		errNotConnected, driver.ErrBadConn, mysql.ErrInvalidConn, mysql.ErrMalformPkt, mysql.ErrPktSync,
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded,
	}, func(gone error) bool { return errors.Is(err, gone) }) {
		return unreachable
	}
	return unknown
}

func sqliteFailure(code int) failure {
	switch code {
	case sqliteConstraintPrimaryKey, sqliteConstraintUnique, sqliteConstraintRowID:
		return duplicate
	case sqliteConstraintCheck:
		return depleted
	}
	switch code & 0xff {
	case sqliteBusy, sqliteLocked:
		return collision
	case sqliteInterrupt, sqliteIOErr, sqliteFull, sqliteCantOpen, sqliteProtocol:
		return unreachable
	}
	return unknown
}

// translate puts a driver's error into the words of the domain. What ended
// because ctx ended is the context's error, unless the database had its answer
// before that.
func translate(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	switch failureOf(err) {
	case duplicate:
		return fmt.Errorf("%w: %w", errDuplicate, err)
	case depleted:
		return fmt.Errorf("%w: %w", voucher.ErrSoldOut, err)
	case collision, unreachable:
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", order.ErrUnavailable, err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("database: %w", err)
}

// wrote is translate for a write. The SQLite driver reports success for a
// statement that it skipped because ctx had ended.
func wrote(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return translate(ctx, err)
}
