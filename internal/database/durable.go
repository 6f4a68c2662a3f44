package database

import (
	"context"
	"math/rand/v2"
	"time"
)

// flushCommits returns once a crash of the server cannot undo anything that was visible before the call. Whoever acts on
// what another transaction has written calls it first.
//
// InnoDB makes a transaction visible, and releases its locks, before it has written the COMMIT to its log; only the client
// that sent the COMMIT waits for the disk. (With a binary log it is the other way round.) The log is written in sequence:
// once a later commit is on the disk, all earlier ones are. The commit must change a row, since InnoDB writes nothing for
// a transaction that changes nothing. See docs/adr/0018-visible-is-not-durable.md.
func (d *DB) flushCommits(ctx context.Context) error {
	if !d.batches {
		return nil // SQLite writes a commit before anybody sees it
	}
	const query = "INSERT INTO log_flushes (id, flushes) VALUES (?, 1) ON DUPLICATE KEY UPDATE flushes = flushes + 1"
	defer d.logSlow(ctx, query, time.Now())
	return d.retry(ctx, func() error {
		_, err := d.singles.ExecContext(ctx, query, rand.IntN(flushRows))
		return translateWrite(ctx, err)
	})
}

// flushRows is the number of rows over which flushes are spread, so that they seldom wait for each other.
const flushRows = 16
