package mysqlio

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/lock"
)

// Numbers of server errors. Both servers share them; texts differ.
const (
	duplicateEntry  = 1062
	noSuchThread    = 1094
	lockWaitTimeout = 1205
	deadlock        = 1213
	lockNoWait      = 3572
)

// Error translates an error of a statement: ctx's error where it is the caller's
// context that ended, and otherwise [lock.ErrUnavailable]. nil stays nil.
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

// IsDuplicate reports that a unique key had the row already.
func IsDuplicate(err error) bool { return number(err) == duplicateEntry }

// IsConflict reports that the server undid the statement in favour of others, by a
// deadlock or a lock wait that took too long. It may be sent again.
func IsConflict(err error) bool { return number(err) == deadlock || number(err) == lockWaitTimeout }

// IsLocked reports that a row is locked: MySQL's answer to NOWAIT is an error of
// its own, MariaDB's that of a lock wait that took too long.
func IsLocked(err error) bool { return number(err) == lockNoWait || number(err) == lockWaitTimeout }

// Answered reports that the server itself gave the error, so that the statement was
// not carried out and the connection lives.
func Answered(err error) bool { return number(err) != 0 }

func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}
