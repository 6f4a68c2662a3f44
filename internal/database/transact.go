package database

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"seckill/internal/order"
)

// Transact implements [order.Store]. fn may be called several times and must be
// able to start over: a deadlock, a lock wait that ran out or a busy file rolls
// back all of it and repeats it, whatever fn made of the error.
//
// Writes are put off until something needs them done: a read, a Flush, the commit.
// The transaction begins with the first that is sent. Until then reads run by
// themselves and no connection is held, so fn may wait for a lock; from then on they
// see the transaction's own writes. tx is for one goroutine, and ends with fn.
//
// When fn fails or panics the transaction is rolled back, on a context that
// outlives ctx. A ctx that has ended by the time fn returns rolls back too; once
// COMMIT is on its way ctx does not interrupt it.
func (o *Orders) Transact(ctx context.Context, fn func(ctx context.Context, tx order.Tx) error) error {
	return o.db.transact(ctx, func(ctx context.Context, t *tx) error { return fn(ctx, t) })
}

func (d *DB) transact(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	return d.repeatWhile(ctx, func() (collided bool, err error) {
		t := &tx{db: d}
		defer t.rollback(ctx) // does nothing after a commit; runs when fn panics
		if err = fn(ctx, t); err == nil {
			err = t.commit(ctx)
		}
		// Only a collision of this transaction counts, not one that fn met
		// elsewhere, say in a lock that is a table too. And it counts whatever fn
		// returned: MySQL has already undone the work.
		if t.collided != nil {
			return true, t.collided
		}
		return false, err
	})
}

// tx is an [order.Tx] at work; its statements are in tx.go, how they are sent in
// write.go.
type tx struct {
	db   *DB
	conn *sql.Conn // nil before the first write is sent
	// pending are the writes that were put off.
	pending []write
	// collided is the collision that ended the transaction early.
	collided error
	ended    bool
}

var _ order.Tx = (*tx)(nil)

// begin takes a writer's connection, once.
func (t *tx) begin(ctx context.Context) error {
	if t.conn != nil {
		return nil
	}
	conn, err := t.db.writers.Conn(ctx)
	if err != nil {
		return t.noted(translate(ctx, err))
	}
	t.conn = conn
	if t.db.begin == "" {
		return nil
	}
	_, err = t.run(ctx, t.db.begin)
	return err
}

func (t *tx) run(ctx context.Context, query string, args ...any) (int64, error) {
	defer t.db.slow(ctx, query, time.Now())
	result, err := t.conn.ExecContext(ctx, query, args...)
	if err = t.noted(wrote(ctx, err)); err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// read reads one row, or returns [sql.ErrNoRows].
func (t *tx) read(ctx context.Context, query string, arg []any, dest ...any) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	defer t.db.slow(ctx, query, time.Now())
	err := t.reader().QueryRowContext(ctx, query, arg...).Scan(dest...)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return t.noted(translate(ctx, err))
}

// readAll has each read every row, one after the other.
func (t *tx) readAll(ctx context.Context, query string, arg []any, each func(*sql.Rows) error) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	defer t.db.slow(ctx, query, time.Now())
	rows, err := t.reader().QueryContext(ctx, query, arg...)
	if err != nil {
		return t.noted(translate(ctx, err))
	}
	defer rows.Close()
	for err == nil && rows.Next() {
		err = each(rows)
	}
	return t.noted(translate(ctx, cmp.Or(err, rows.Err())))
}

// reader is the transaction's connection, or any where it has not begun.
func (t *tx) reader() interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
} {
	if t.conn != nil {
		return t.conn
	}
	return t.db.readers
}

func (t *tx) usable() error {
	if t.ended {
		return fmt.Errorf("database: %w", sql.ErrTxDone)
	}
	return t.collided
}

// noted passes a statement's error on, in the words of an order, and remembers a
// collision, after which the transaction takes no more statements.
func (t *tx) noted(err error) error {
	switch {
	case failureOf(err) == collision:
		t.collided = err
	case errors.Is(err, errDuplicate): // only orders are inserted here
		return fmt.Errorf("%w: %w", order.ErrAlreadyOrdered, err)
	}
	return err
}

// commit ends the transaction. Nothing was written: there is nothing to commit.
func (t *tx) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // rolled back by Transact
	}
	if t.wholeInOneTrip() {
		return t.sendWhole(ctx)
	}
	if err := t.Flush(ctx); err != nil {
		return err
	}
	if t.conn == nil {
		t.ended = true
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := t.end(ctx, "COMMIT")
	switch {
	case err == nil:
		t.ended = true
		_ = t.conn.Close() // gives it back to its pool
		return nil
	case failureOf(err) == collision:
		t.collided = fmt.Errorf("%w: commit: %w", order.ErrUnavailable, err)
		return t.collided
	}
	return outcomeUnknown(err)
}

// outcomeUnknown is the error of a COMMIT without a clear answer.
func outcomeUnknown(err error) error {
	return fmt.Errorf("%w: the outcome of a commit is not known: %w", order.ErrUnavailable, err)
}

// rollback undoes a transaction that was not committed. A connection that cannot
// say that it did is closed, upon which the server undoes it.
func (t *tx) rollback(ctx context.Context) {
	if t.ended {
		return
	}
	t.ended = true
	if t.conn == nil {
		return
	}
	if err := t.end(ctx, "ROLLBACK"); err != nil {
		t.db.config.Logger.LogAttrs(ctx, slog.LevelDebug, "rollback failed, closing the connection", slog.Any("error", err))
		_ = discard(t.conn)
		return
	}
	_ = t.conn.Close()
}

// discard closes a connection for good, in place of giving it back to its pool.
func discard(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return errors.Join(err, conn.Close())
}

// end runs COMMIT or ROLLBACK on a context of its own.
func (t *tx) end(ctx context.Context, how string) error {
	defer t.db.slow(ctx, how, time.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.config.EndTimeout)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, how); err != nil {
		return err
	}
	return ctx.Err()
}
