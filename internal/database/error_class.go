package database

import (
	"cmp"
	"context"
	"errors"
	"slices"

	gosqlite "github.com/glebarez/go-sqlite"
	"github.com/go-sql-driver/mysql"

	"seckill/internal/order"
)

// ErrorClass is why a database accepts no orders, as a label value for metrics. The list of classes is closed.
type ErrorClass string

// The error classes.
const (
	NoError            ErrorClass = ""
	Unreachable        ErrorClass = "unreachable" // no connection, or no answer
	Access             ErrorClass = "access"      // a password or a privilege
	DiskFull           ErrorClass = "full"        // the disk or the tablespace is full
	ReadOnly           ErrorClass = "read_only"
	TooManyConnections ErrorClass = "connections" // too many connections
	Offline            ErrorClass = "offline"     // shutting down, in offline mode, not part of its cluster
	Schema             ErrorClass = "schema"      // a table or a column is missing or different
	NoVoucher          ErrorClass = "no_voucher"  // the row of a voucher is missing
	DataRejected       ErrorClass = "data"        // the database refuses the data
	Collision          ErrorClass = "collision"   // repeated deadlocks or lock wait timeouts
	OtherServerError   ErrorClass = "other"       // a server error that is not listed here
	InternalError      ErrorClass = "unforeseen"  // not a database error: a bug in this program
)

// ErrorClasses lists all of them but [NoError].
func ErrorClasses() []ErrorClass {
	return []ErrorClass{Unreachable, Access, DiskFull, ReadOnly, TooManyConnections, Offline, Schema, NoVoucher, DataRejected, Collision, OtherServerError, InternalError}
}

// mysqlClasses maps error numbers of MySQL and MariaDB to classes. Only metrics depend on it.
var mysqlClasses = map[uint16]ErrorClass{
	1044: Access, 1045: Access, 1142: Access, 1143: Access, 1227: Access, 1370: Access, 1698: Access, 1820: Access, 1862: Access, 3118: Access, 4151: Access,
	1021: DiskFull, 1030: DiskFull, 1114: DiskFull,
	1036: ReadOnly, 1290: ReadOnly, 1792: ReadOnly, 1836: ReadOnly, 3100: ReadOnly,
	1040: TooManyConnections, 1203: TooManyConnections, 1226: TooManyConnections,
	1047: Offline, 1053: Offline, 1077: Offline, 1079: Offline, 3032: Offline,
	1048: Schema, 1049: Schema, 1051: Schema, 1054: Schema, 1136: Schema, 1146: Schema, 1364: Schema, 1451: Schema, 1452: Schema, 1932: Schema,
	1158: Unreachable, 1159: Unreachable, 1160: Unreachable, 1161: Unreachable, 1317: Unreachable, 1927: Unreachable, 1969: Unreachable, 3024: Unreachable, 4031: Unreachable,
}

// SQLite's codes that have a class of their own.
const (
	sqliteReadOnly = 8
	sqliteFull     = 13
	sqliteAuth     = 23
)

// ClassOf returns the class of an error that a store returned.
func ClassOf(err error) ErrorClass {
	if err == nil {
		return NoError
	}
	switch failureOf(err) {
	case duplicate, depleted, misfit:
		return DataRejected
	case collision:
		return Collision
	}
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		if aboutTheData(err) && mysqlClasses[e.Number] == NoError {
			return DataRejected
		}
		return cmp.Or(mysqlClasses[e.Number], OtherServerError)
	}
	if e, ok := errors.AsType[*gosqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqliteReadOnly:
			return ReadOnly
		case sqliteFull:
			return DiskFull
		case sqliteAuth:
			return Access
		}
		return OtherServerError
	}
	switch {
	case errors.Is(err, order.ErrVoucherMissing):
		return NoVoucher
	case errors.Is(err, order.ErrRefused):
		return DataRejected
	}
	if slices.ContainsFunc([]error{order.ErrUnavailable, context.DeadlineExceeded, context.Canceled}, func(gone error) bool { return errors.Is(err, gone) }) {
		return Unreachable
	}
	return InternalError
}
