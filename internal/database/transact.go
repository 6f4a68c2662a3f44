package database

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"time"

	"seckill/internal/order"
)

// Transact implements [order.Store]. fn may be called several times and must be able to start over: a deadlock, a lock
// wait timeout or a busy file rolls everything back and repeats fn, whatever fn made of the error.
//
// Writes are deferred until a read, a Flush or the commit. The transaction begins with the first write that is sent.
// Until then reads run outside of it and no connection is held, so fn may wait for a lock. From then on reads see the
// transaction's own writes. tx is for one goroutine and ends with fn.
//
// If fn fails or panics, the transaction is rolled back on a context that outlives ctx. It is also rolled back if ctx
// has ended by the time fn returns. The end of ctx does not interrupt a COMMIT that was sent.
func (o *Orders) Transact(ctx context.Context, fn func(ctx context.Context, tx order.Tx) error) error {
	return o.db.transact(ctx, func(ctx context.Context, t *tx) error { return fn(ctx, t) })
}

func (d *DB) transact(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	return d.transactOn(ctx, d.writers, forever, fn)
}

// transact repeats a transaction after a deadlock, like that of DB. But it waits for a locked row only once: its
// callers try again themselves, and have other vouchers to work on meanwhile.
func (s *AdmissionStore) transact(ctx context.Context, fn func(ctx context.Context, t *tx) error) error {
	return s.db.transactOn(ctx, s.db.admission, s.db.waitsOnce(), fn)
}

// apply carries writes out in one transaction.
func (d *DB) apply(ctx context.Context, writes ...write) error {
	return d.transact(ctx, func(_ context.Context, t *tx) error { return t.enqueue(writes...) })
}

// apply carries writes out in one transaction.
func (s *AdmissionStore) apply(ctx context.Context, writes ...write) error {
	return s.transact(ctx, func(_ context.Context, t *tx) error { return t.enqueue(writes...) })
}

// waitsOnce is the least time that an attempt takes if it has waited for a locked row. A deadlock is found sooner.
func (d *DB) waitsOnce() time.Duration { return d.config.LockWait / 2 }

// transactOn does what transact does, on the connections of a pool. An attempt that took as long as longest is not
// repeated.
func (d *DB) transactOn(ctx context.Context, pool *sql.DB, longest time.Duration, fn func(ctx context.Context, t *tx) error) error {
	return d.retryWhile(ctx, longest, func() (collided bool, err error) {
		t := &tx{db: d, pool: pool, number: 1 + rand.Int64N(math.MaxInt64)}
		defer t.rollback(ctx) // does nothing after a commit; also runs when fn panics
		if err = fn(ctx, t); err == nil {
			err = t.commit(ctx)
		}
		// Only a collision of this transaction counts, not one that fn got elsewhere, for instance from a
		// lock that is kept in a table. And it counts whatever fn returned: MySQL has already rolled back
		// the work.
		if t.collided != nil {
			return true, t.collided
		}
		return false, err
	})
}

// tx is an [order.Tx]. Its statements are in tx.go; write.go sends them.
type tx struct {
	db   *DB
	pool *sql.DB
	conn *sql.Conn // nil before the first write is sent
	// number identifies this attempt in vouchers.last_writer; see sendWithCommit.
	number int64
	// revision is that which the voucher must have; 0 is any. See [tx.AtRevision].
	revision int64
	// pending are the deferred writes. last are those that come after all others.
	pending, last []write
	// took is the row from which the transaction takes a unit; the voucher's own row if nothing is said.
	took origin
	// collided is the collision that ended the transaction early; nil if there was none.
	collided error
	ended    bool
}

var _ order.Tx = (*tx)(nil)

// begin takes a connection from the pool, once.
func (t *tx) begin(ctx context.Context) error {
	if t.conn != nil {
		return nil
	}
	conn, err := t.pool.Conn(ctx)
	if err != nil {
		return t.recordError(translate(ctx, err))
	}
	t.conn = conn
	if t.db.begin == "" {
		return nil
	}
	_, err = t.run(ctx, t.db.begin)
	return err
}

func (t *tx) run(ctx context.Context, query string, args ...any) (int64, error) {
	defer t.db.logSlow(ctx, query, time.Now())
	result, err := t.conn.ExecContext(ctx, query, args...)
	if err = t.recordError(translateWrite(ctx, err)); err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// read reads one row, or returns [sql.ErrNoRows].
func (t *tx) read(ctx context.Context, query string, arg []any, dest ...any) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	defer t.db.logSlow(ctx, query, time.Now())
	err := t.reader().QueryRowContext(ctx, query, arg...).Scan(dest...)
	if err == nil || errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return t.recordError(translate(ctx, err))
}

// readAll calls scan for every row.
func (t *tx) readAll(ctx context.Context, query string, arg []any, scan func(*sql.Rows) error) error {
	if err := t.Flush(ctx); err != nil {
		return err
	}
	return t.readRows(ctx, query, arg, scan)
}

// readRows is readAll without the deferred writes.
func (t *tx) readRows(ctx context.Context, query string, arg []any, scan func(*sql.Rows) error) error {
	defer t.db.logSlow(ctx, query, time.Now())
	rows, err := t.reader().QueryContext(ctx, query, arg...)
	if err != nil {
		return t.recordError(translate(ctx, err))
	}
	defer rows.Close()
	for err == nil && rows.Next() {
		err = scan(rows)
	}
	return t.recordError(translate(ctx, cmp.Or(err, rows.Err())))
}

// reader returns the transaction's connection, or the readers' pool if the transaction has not begun.
func (t *tx) reader() interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
} {
	if t.conn != nil {
		return t.conn
	}
	return t.db.readers
}

// usable returns an error if the transaction has ended or collided.
func (t *tx) usable() error {
	if t.ended {
		return fmt.Errorf("database: %w", sql.ErrTxDone)
	}
	return t.collided
}

// recordError translates a statement's error to one of package order. It records a collision, after which the
// transaction takes no more statements.
func (t *tx) recordError(err error) error {
	switch {
	case failureOf(err) == collision:
		t.collided = err
	case errors.Is(err, errDuplicate): // only orders are inserted here
		return fmt.Errorf("%w: %w", order.ErrAlreadyOrdered, err)
	}
	return err
}

// commit ends the transaction. It sends nothing if nothing was written.
func (t *tx) commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err // rolled back by Transact
	}
	t.pending, t.last = append(t.pending, t.last...), nil
	if t.fitsOneRoundTrip() {
		if err := t.sendWithCommit(ctx); t.ended || err != nil {
			return err
		}
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
		_ = t.conn.Close() // returns it to its pool
		return nil
	case failureOf(err) == collision:
		t.collided = fmt.Errorf("%w: commit: %w", order.ErrUnavailable, err)
		return t.collided
	}
	return outcomeUnknown(err)
}

// outcomeUnknown is the error of a COMMIT without a clear answer.
func outcomeUnknown(err error) error {
	return fmt.Errorf("%w: the outcome of the commit is unknown: %w", order.ErrUnavailable, err)
}

// rollback rolls back a transaction that was not committed. If the connection does not confirm it, the
// connection is closed, and the server rolls back.
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

// discard closes a connection instead of returning it to its pool.
func discard(conn *sql.Conn) error {
	err := conn.Raw(func(any) error { return driver.ErrBadConn })
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return errors.Join(err, conn.Close())
}

// end runs COMMIT or ROLLBACK on a context of its own.
func (t *tx) end(ctx context.Context, statement string) error {
	defer t.db.logSlow(ctx, statement, time.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.config.EndTimeout)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, statement); err != nil {
		return err
	}
	return ctx.Err()
}
