package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// write is a deferred write.
type write struct {
	query string // on MySQL it may have several statements: the rows of the last one count
	args  []any
	// dependent is the same write in the packet of the first write: it takes effect, on one row, only if that
	// one did. Empty if there is no such form.
	dependent     string
	dependentArgs []any
	// check returns an error if the number of rows found is wrong. nil accepts any number.
	check func(ctx context.Context, found int64) error
}

// oneRow is the check of a write that must find one row. missed returns why it has found none, or does its work elsewhere.
func oneRow(missed func(ctx context.Context) error) func(ctx context.Context, found int64) error {
	return func(ctx context.Context, found int64) error {
		if found == 1 {
			return nil
		}
		return missed(ctx)
	}
}

// enqueue defers writes.
func (t *tx) enqueue(writes ...write) error {
	if err := t.usable(); err != nil {
		return err
	}
	t.pending = append(t.pending, writes...)
	return nil
}

// Flush implements [order.Tx].
func (t *tx) Flush(ctx context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	for len(t.pending) > 0 {
		n := t.nextGroup()
		group := t.pending[:n]
		t.pending = t.pending[n:]
		if err := t.send(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// nextGroup is how many of the pending writes can be sent in one round trip: up to and including the
// first one with a check.
func (t *tx) nextGroup() int {
	if !t.db.batches {
		return 1
	}
	for i, w := range t.pending {
		if w.check != nil {
			return i + 1
		}
	}
	return len(t.pending)
}

// send sends a group of writes. Only the last one may have a check.
func (t *tx) send(ctx context.Context, group []write) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	last := group[len(group)-1]
	var found int64
	var err error
	if len(group) == 1 {
		found, err = t.run(ctx, last.query, last.args...)
	} else {
		found, err = t.runAll(ctx, group)
	}
	if err != nil || last.check == nil {
		return err
	}
	return last.check(ctx, found)
}

// runAll runs several writes in one round trip and returns how many rows the last one found. If one
// fails, nothing is committed: the packet has no COMMIT, and its error is read before one is sent. That
// matters on a Galera node; see sendWithCommit.
func (t *tx) runAll(ctx context.Context, group []write) (int64, error) {
	found, err := t.runPacket(ctx, group)
	if err != nil {
		return 0, err
	}
	return found[len(found)-1], nil
}

// runPacket is runAll that returns how many rows each write found.
func (t *tx) runPacket(ctx context.Context, group []write) (found []int64, err error) {
	var queries []string
	var args []any
	for _, w := range group {
		queries, args = append(queries, w.query), append(args, w.args...)
	}
	found, err = t.execAll(ctx, strings.Join(queries, "; "), args)
	if err = t.recordError(translateWrite(ctx, err)); err != nil {
		return nil, err
	}
	return found, nil
}

// fitsOneRoundTrip reports whether the whole transaction can be sent in one round trip: nothing was sent
// yet, and there is a write that must find its row, and others that depend on it.
func (t *tx) fitsOneRoundTrip() bool {
	independent := func(w write) bool { return w.dependent == "" }
	return t.db.batches && t.conn == nil && len(t.pending) > 1 &&
		t.pending[0].check != nil && !slices.ContainsFunc(t.pending[1:], independent)
}

// sendWithCommit sends the writes and COMMIT in one round trip. The first write locks the row that all buyers of a
// voucher wait for. The row is then locked only while the server works, and never during a network round trip or while
// the client is busy.
//
// A statement that fails ends the packet. That is not enough: a Galera node can roll back a transaction between two
// statements, and it carries out the rest of the packet in a new transaction before it reports the error. So each later
// part must be harmless by itself. The other writes take effect only if the row still holds this attempt's number,
// which the first write stored there and a rollback removes. If the number is missing, because the first write found no
// row or was rolled back, COMMIT commits nothing.
//
// If the first write finds no row and its check has taken the unit elsewhere, the transaction is not ended, and the
// other writes are pending again.
func (t *tx) sendWithCommit(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	first, others := t.pending[0], t.pending[1:]
	t.pending = nil
	queries, args := first.query, slices.Clone(first.args)
	for _, w := range others {
		queries, args = queries+"; "+w.dependent, append(args, w.dependentArgs...)
	}
	// The end of ctx does not interrupt it once it is sent, as it does not interrupt a COMMIT.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.config.LockWait+t.db.config.EndTimeout)
	defer cancel()
	found, err := t.execAll(sending, queries+"; COMMIT", args)
	if err != nil {
		switch failureOf(err) {
		case duplicate, depleted, collision: // an error of a write, so before the commit
			return t.recordError(translate(ctx, err))
		}
		return outcomeUnknown(err)
	}
	found = found[strings.Count(first.query, ";"):] // of a first write with several statements the last one counts
	if found[0] != 1 {
		t.pending = others
		return first.check(ctx, found[0]) // that transaction was empty; check reads, or writes, in a new one
	}
	t.ended = true
	_ = t.conn.Close() // returns it to its pool
	for i := range others {
		if found[1+i] != 1 {
			return outcomeUnknown(errNoOrder)
		}
	}
	return nil
}

// errNoOrder says that the first write found its row, another write did not find the number that the first one stored,
// and the server reported no error. An order that does not exist must not be confirmed.
var errNoOrder = errors.New("database: the server wrote no order in the transaction that took from the stock")

// execAll runs several statements and returns how many rows each one found. database/sql reports that
// for the last statement only.
func (t *tx) execAll(ctx context.Context, queries string, args []any) (found []int64, err error) {
	defer t.db.logSlow(ctx, queries, time.Now())
	named := make([]driver.NamedValue, len(args))
	for i, arg := range args {
		value, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return nil, fmt.Errorf("database: parameter %d: %w", i+1, err)
		}
		named[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	err = t.conn.Raw(func(conn any) error {
		execer, ok := conn.(driver.ExecerContext)
		if !ok {
			return errors.New("database: the driver cannot run several statements")
		}
		result, err := execer.ExecContext(ctx, queries, named)
		if err != nil {
			return err
		}
		all, ok := result.(mysql.Result)
		if !ok {
			return errors.New("database: the driver does not count each statement's rows")
		}
		if found = all.AllRowsAffected(); len(found) != strings.Count(queries, ";")+1 {
			return fmt.Errorf("database: the server answered %d statements of %q", len(found), queries)
		}
		return nil
	})
	return found, err
}
