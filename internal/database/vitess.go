package database

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Vitess (https://vitess.io) spreads the tables over shards, each a MySQL server, behind a gate that speaks MySQL's
// protocol. deploy/vitess/vschema.json says which column decides on the shard of a row: of all that belongs to a voucher it
// is the voucher's id, so what happens to one order is a transaction in one shard. See docs/scale.md.

// vitess reports whether the server is a gate of Vitess.
func (d *DB) vitess() bool { return d.galera != nil && d.galera.gate.Load() }

// isGate reports whether the variables of a session are those of a gate of Vitess.
func isGate(variables map[string]string) bool {
	return strings.HasSuffix(variables["version"], "-Vitess")
}

// sharded is called for each connection to a gate.
func (c *cluster) sharded(ctx context.Context, version string) {
	c.gate.Store(true)
	c.onceGate.Do(func() {
		c.log.LogAttrs(ctx, slog.LevelInfo, "the database is Vitess: what belongs to a voucher is in one shard; reads of an order by its id alone ask all shards",
			slog.String("version", version))
	})
}

// logsOf returns one voucher for each log that is to be flushed. Except on Vitess there is one log, and 0 stands for
// it.
func (d *DB) logsOf(vouchers []int64) []int64 {
	if !d.vitess() {
		return []int64{0}
	}
	return slices.Compact(slices.Sorted(slices.Values(vouchers)))
}

// onAnyShard calls write for vouchers of different shards until it succeeds: while a shard is down, the others sell on. Except
// on Vitess it calls it once, for 0.
func (d *DB) onAnyShard(write func(voucherID int) error) (err error) {
	vouchers := 1
	if d.vitess() {
		vouchers = flushRows
	}
	for _, voucherID := range rand.Perm(vouchers) {
		if err = write(voucherID); err == nil {
			break
		}
	}
	return err
}

// trackedWithin is how long a gate may take to notice a new table.
const trackedWithin = 30 * time.Second

// awaitTracking waits until the gate knows the columns of the table of golang-migrate, which may be new: without them it does not
// carry out the DELETE that begins each migration.
func awaitTracking(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, trackedWithin)
	defer cancel()
	for {
		_, err := conn.ExecContext(ctx, "DELETE FROM schema_migrations WHERE version < -1 LIMIT 1") // there is none
		if err == nil {
			return nil
		}
		select {
		case <-time.After(noConnectionPause):
		case <-ctx.Done():
			return err
		}
	}
}

// Unsuited returns the field of a policy with which the server cannot sell, and the reason. The field is empty if it can.
func (d *DB) Unsuited(p voucher.Policy) (field, why string) {
	switch {
	case !d.vitess():
	case p.Stock == voucher.StockUnits:
		return "policy.stock", fmt.Sprintf("%q is not available on Vitess, whose gate keeps no result of a query in a variable; %q is", p.Stock, voucher.StockRows)
	case p.Lock == "mysql-get-lock" || p.Lock == "mysql-for-update":
		return "policy.lock", fmt.Sprintf("%q is not available on Vitess, whose clients share the connections to MySQL; %q is", p.Lock, "mysql-row")
	}
	return "", ""
}

// errUnitsOnVitess is the error of a voucher that was created on another server.
var errUnitsOnVitess = fmt.Errorf("%w: stock %q is not available on Vitess", order.ErrUnavailable, voucher.StockUnits)
