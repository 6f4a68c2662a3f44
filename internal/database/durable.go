package database

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"time"
)

// flushCommits returns once a crash of the server cannot undo anything that was visible before the call. A process calls
// it before it acts on what another transaction has written.
//
// InnoDB makes a transaction visible, and releases its locks, before it has written the COMMIT to its log; only the client
// that sent the COMMIT waits for the disk. (With a binary log it is the other way round.) The log is written in sequence:
// once a later commit is on the disk, all earlier ones are. The commit must change a row, since InnoDB writes nothing for
// a transaction that changes nothing. See docs/adr/0018-visible-is-not-durable.md.
//
// The vouchers are those whose data was read. On Vitess they may be in several shards, each with a log of its own.
//
// The end of ctx ends the wait. The connection is one of the pool, which must not be the readers': while the disk hangs,
// reads go on.
func (d *DB) flushCommits(ctx context.Context, pool *sql.DB, vouchers ...int64) error {
	if !d.batches {
		return nil // SQLite passes a commit to the operating system before anybody sees it
	}
	for _, id := range d.logsOf(vouchers) {
		if err := d.flushLog(ctx, pool, id); err != nil {
			return err
		}
	}
	return nil
}

// flushLog flushes the log of the server that stores a voucher.
func (d *DB) flushLog(ctx context.Context, pool *sql.DB, voucherID int64) error {
	const query = smallWrite + "; COMMIT"
	defer d.logSlow(ctx, query, time.Now())
	return d.retry(ctx, func() error {
		conn, err := pool.Conn(ctx)
		if err != nil {
			return translate(ctx, err)
		}
		if _, err := conn.ExecContext(ctx, query, voucherID, rand.IntN(flushRows)); err != nil {
			_ = discard(conn) // it may be within a transaction
			return translateWrite(ctx, err)
		}
		return conn.Close()
	})
}

// smallWrite changes a row that nobody reads.
const smallWrite = "INSERT INTO log_flushes (voucher_id, id, flushes) VALUES (?, ?, 1) ON DUPLICATE KEY UPDATE flushes = flushes + 1"

// flushRows is the number of rows over which flushes are spread, so that they seldom wait for each other.
const flushRows = 16

// flushCommits waits on a connection of admission.
func (s *AdmissionStore) flushCommits(ctx context.Context, vouchers ...int64) error {
	return s.db.flushCommits(ctx, s.db.admission, vouchers...)
}
