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

// write is a change that was asked for and not sent yet.
type write struct {
	query string
	// after is the same change as the statement after another one: it happens only
	// if that one found its row. Empty where there is no such form.
	after string
	args  []any
	// check makes an error of how many rows were found. nil: any number is right.
	check func(ctx context.Context, found int64) error
}

// put takes a write on.
func (t *tx) put(w write) error {
	if err := t.usable(); err != nil {
		return err
	}
	t.pending = append(t.pending, w)
	return nil
}

// Flush implements [order.Tx].
func (t *tx) Flush(ctx context.Context) error {
	if err := t.usable(); err != nil {
		return err
	}
	for len(t.pending) > 0 {
		n := t.oneTrip()
		group := t.pending[:n]
		t.pending = t.pending[n:]
		if err := t.send(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// oneTrip is how many of the writes can go together: up to the first whose rows are to be
// looked at before anything else is done.
func (t *tx) oneTrip() int {
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

// send sends writes of which only the last may have a check.
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

// runAll runs several writes in one round trip and says how many rows the last one
// found. If one fails, the server carries out nothing after it.
func (t *tx) runAll(ctx context.Context, group []write) (int64, error) {
	var queries []string
	var args []any
	for _, w := range group {
		queries, args = append(queries, w.query), append(args, w.args...)
	}
	found, err := t.execAll(ctx, strings.Join(queries, "; "), args)
	if err = t.noted(wrote(ctx, err)); err != nil {
		return 0, err
	}
	return found[len(found)-1], nil
}

// wholeInOneTrip says whether nothing was sent yet and all there is to send can go
// at once: a write that must find its row, and one that depends on it.
func (t *tx) wholeInOneTrip() bool {
	return t.db.batches && t.conn == nil && len(t.pending) == 2 &&
		t.pending[0].check != nil && t.pending[1].after != ""
}

// sendWhole sends two writes and COMMIT in one round trip. What the first one
// locks, which is the row that all buyers of a voucher wait for, is then locked
// while the server works and never while a network or a busy client does.
//
// If the first finds nothing, the second does nothing and an empty transaction is
// committed. If either fails, the server carries out nothing after it.
func (t *tx) sendWhole(ctx context.Context) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	first, second := t.pending[0], t.pending[1]
	t.pending = nil
	// Once it is on its way ctx does not interrupt it, as it does not interrupt a COMMIT.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.config.LockWait+t.db.config.EndTimeout)
	defer cancel()
	found, err := t.execAll(sending, first.query+"; "+second.after+"; COMMIT", slices.Concat(first.args, second.args))
	if err != nil {
		switch failureOf(err) {
		case duplicate, depleted, collision: // of a write, so before the commit
			return t.noted(translate(ctx, err))
		}
		return outcomeUnknown(err)
	}
	if err := first.check(ctx, found[0]); err != nil {
		return err // its transaction was empty; Transact ends the one that looked why
	}
	t.ended = true
	_ = t.conn.Close() // gives it back to its pool
	if found[1] != 1 {
		return errHalf
	}
	return nil
}

// errHalf: the first write was committed, the second found nothing to do. No server
// that counts rows as MySQL does gets here; one that does not must not have an order
// confirmed that is not there.
var errHalf = errors.New("database: the server does not count the rows of the statement before: it took from the stock and wrote no order")

// execAll runs several statements and says how many rows each one found, which is
// more than database/sql can tell.
func (t *tx) execAll(ctx context.Context, queries string, args []any) (found []int64, err error) {
	defer t.db.slow(ctx, queries, time.Now())
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
			return fmt.Errorf("database: %d statements were answered of %q", len(found), queries)
		}
		return nil
	})
	return found, err
}
