package database

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	gosqlite "github.com/glebarez/go-sqlite"
	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// errDuplicate says that a unique index or the primary key refused a row.
var errDuplicate = errors.New("database: duplicate row")

// errMisfit says that the database refused a row because of its content.
var errMisfit = errors.New("database: the row does not fit")

// failure is what an error means, independent of the database that it came from.
type failure int

const (
	none failure = iota
	// unavailable is every error that is not known to be one of the others: the server has a problem, and the error
	// says nothing about the row.
	unavailable
	duplicate // a unique index refused the row
	depleted  // the stock would have gone below 0
	misfit    // the row can never be stored
	collision // another transaction interfered: a repetition may succeed
)

// mysqlFailures maps those error numbers of MySQL and MariaDB that are about the row or about other transactions. The
// list is closed: a number that is missing here is a problem of the server, and no order may be rejected because of it.
//
// These are left out on purpose, although they look like the row's fault: 1048 (column cannot be NULL), 1054 (unknown
// column), 1136 (column count), 1364 (no default value), 1451 and 1452 (foreign key). No row of this program has such a
// fault under its own schema, so they mean that the schema was changed. A trigger raises 1644.
var mysqlFailures = map[uint16]failure{
	1062: duplicate, // ER_DUP_ENTRY

	1264: depleted, // ER_WARN_DATA_OUT_OF_RANGE: a negative value for an unsigned column
	1690: depleted, // ER_DATA_OUT_OF_RANGE: an unsigned expression went below 0
	3819: depleted, // ER_CHECK_CONSTRAINT_VIOLATED, MySQL
	4025: depleted, // ER_CONSTRAINT_FAILED, MariaDB

	1292: misfit, // ER_TRUNCATED_WRONG_VALUE: a time that no DATETIME holds
	1366: misfit, // ER_TRUNCATED_WRONG_VALUE_FOR_FIELD: bytes that are no text
	1406: misfit, // ER_DATA_TOO_LONG
	3140: misfit, // ER_INVALID_JSON_TEXT, MySQL

	1020: collision, // ER_CHECKREAD: changed since it was read, MariaDB
	1205: collision, // ER_LOCK_WAIT_TIMEOUT: rolled back the statement only
	1213: collision, // ER_LOCK_DEADLOCK: rolled back the transaction
}

// SQLite's result codes: the low byte is the primary code, the rest says more.
// https://www.sqlite.org/rescode.html
const (
	sqliteBusy     = 5
	sqliteLocked   = 6
	sqliteTooBig   = 18
	sqliteMismatch = 20 // a value of the wrong type

	sqliteConstraintCheck      = 19 | 1<<8
	sqliteConstraintPrimaryKey = 19 | 6<<8
	sqliteConstraintUnique     = 19 | 8<<8
	sqliteConstraintRowID      = 19 | 10<<8
)

// failureOf classifies an error by its type and number, never by its text.
func failureOf(err error) failure {
	if err == nil {
		return none
	}
	kind := none
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		kind = mysqlFailures[e.Number]
	} else if e, ok := errors.AsType[*gosqlite.Error](err); ok {
		kind = sqliteFailure(e.Code())
	}
	return cmp.Or(kind, unavailable)
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
	case sqliteTooBig, sqliteMismatch:
		return misfit
	}
	return unavailable
}

// aboutTheData reports whether the server refused the data of a statement, by the class of its SQLSTATE: 22 data
// exception, 23 integrity constraint, 45 raised by a trigger. Such an error may be caused by one row, or by a schema
// that accepts no row. Any other class is about the state of the server.
func aboutTheData(err error) bool {
	e, ok := errors.AsType[*mysql.MySQLError](err)
	return ok && slices.Contains([]string{"22", "23", "45"}, string(e.SQLState[:2]))
}

// translate turns a driver's error into one of the domain. If ctx has ended, it returns the context's error, unless the
// database answered before that.
func translate(ctx context.Context, err error) error {
	switch failureOf(err) {
	case none:
		return nil
	case duplicate:
		return fmt.Errorf("%w: %w", errDuplicate, err)
	case depleted:
		return fmt.Errorf("%w: %w", voucher.ErrSoldOut, err)
	case misfit:
		return fmt.Errorf("%w: %w", errMisfit, err)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case aboutTheData(err):
		return fmt.Errorf("%w: %w: %w", order.ErrUnavailable, order.ErrRefused, err)
	}
	return fmt.Errorf("%w: %w", order.ErrUnavailable, err)
}

// translateWrite does what translate does, for a write. The SQLite driver reports success for a statement that it
// skipped because ctx had ended.
func translateWrite(ctx context.Context, err error) error {
	if err == nil {
		return ctx.Err()
	}
	return translate(ctx, err)
}
