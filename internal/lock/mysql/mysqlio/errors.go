package mysqlio

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lock"
)

// Numbers of server errors. They are the same in MySQL and MariaDB; the texts differ.
const (
	duplicateEntry  = 1062
	noSuchThread    = 1094
	lockWaitTimeout = 1205
	deadlock        = 1213
	lockNoWait      = 3572
)

// ErrNoAutocommit is a [lock.ErrInvalid]: the pool's connections commit no statement by itself. A row that was written
// for a lock would be gone with its connection, while its holder believes to have the lock.
var ErrNoAutocommit = fmt.Errorf("%w: the connections of the pool have autocommit = 0, so that no statement is committed: add autocommit=1 to the DSN", lock.ErrInvalid)

// Error translates the error of a statement: to the error of ctx if ctx has ended, otherwise to [lock.ErrUnavailable].
// nil stays nil.
func Error(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, lock.ErrUnavailable):
		return err
	}
	return fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
}

// IsDuplicate reports whether the row existed already in a unique key.
func IsDuplicate(err error) bool { return number(err) == duplicateEntry }

// IsConflict reports whether the server rolled back the statement because of a deadlock or a lock wait timeout. The
// statement may be repeated.
func IsConflict(err error) bool { return number(err) == deadlock || number(err) == lockWaitTimeout }

// IsLocked reports whether a row is locked. For NOWAIT, MySQL has an error of its own, while MariaDB returns a lock
// wait timeout.
func IsLocked(err error) bool { return number(err) == lockNoWait || number(err) == lockWaitTimeout }

// Answered reports whether the error came from the server: then the statement was not carried out and the connection is
// intact.
func Answered(err error) bool { return number(err) != 0 }

func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}
