package database

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"

	"seckill/internal/voucher"
)

// Under the stock strategies rows and units most of a voucher's stock is in the table stock_parts, so that buyers do not
// wait for each other at one row. The voucher's own row has the rest: what was given back, and what was added. A buyer
// begins at a part of its own. If that has nothing, [tx.takeAnywhere] looks at all of them in one statement, which sees one
// state: stock that is left in another part is found, and nobody is told "sold out" while there is some.

// inParts is the sum of the stock in the parts of a voucher v.
const inParts = "(SELECT COALESCE(SUM(s.stock), 0) FROM stock_parts s WHERE s.voucher_id = v.id)"

// partRow is a part of a voucher's stock.
type partRow struct {
	VoucherID int64 `gorm:"primaryKey;autoIncrement:false"`
	Part      int64 `gorm:"primaryKey;autoIncrement:false"`
	Stock     int64
}

// TableName implements gorm's Tabler.
func (partRow) TableName() string { return "stock_parts" }

// partsOf splits the stock of a new voucher evenly.
func partsOf(v *voucher.Voucher) []partRow {
	n := v.Parts()
	parts := make([]partRow, n)
	for i := range n {
		parts[i] = partRow{VoucherID: v.ID, Part: i, Stock: v.Stock / n}
		if i < v.Stock%n {
			parts[i].Stock++
		}
	}
	return parts
}

// origin is the row from which a transaction has taken a unit. Its column last_writer has the transaction's number; see
// sendWithCommit.
type origin struct {
	row  string
	args []any
}

// DecrementRow implements [order.Tx].
func (t *tx) DecrementRow(_ context.Context, voucherID, row int64) error {
	t.took = origin{"stock_parts WHERE voucher_id = ? AND part = ?", []any{voucherID, row}}
	return t.enqueue(write{
		query: "UPDATE stock_parts SET stock = stock - 1, last_writer = ? WHERE voucher_id = ? AND part = ? AND revision " + t.expected() + " AND stock > 0",
		args:  []any{t.number, voucherID, row, t.revision},
		check: t.orAnywhere(voucherID),
	})
}

// TakeUnit implements [order.Tx]. SKIP LOCKED passes over the units that others are buying. At READ COMMITTED the query
// locks the row that it returns, and no gap. It leaves its result in a variable of the session, so that it needs no round
// trip of its own.
func (t *tx) TakeUnit(_ context.Context, voucherID, from int64) error {
	if !t.db.batches { // SQLite has one writer, which meets no locked row
		return t.enqueue(write{
			query: `DELETE FROM stock_parts WHERE voucher_id = ? AND part =
				(SELECT part FROM stock_parts WHERE voucher_id = ? AND part >= ? AND revision ` + t.expected() + ` AND stock > 0 ORDER BY part LIMIT 1)`,
			args:  []any{voucherID, voucherID, from, t.revision},
			check: t.orAnywhere(voucherID),
		})
	}
	if t.db.vitess() {
		return errUnitsOnVitess
	}
	t.took = origin{"stock_parts WHERE voucher_id = ? AND part = @unit", []any{voucherID}}
	// Sold units would be in the way of those who look for one.
	const cleared = "DELETE FROM stock_parts WHERE voucher_id = ? AND part = @unit AND last_writer = ?"
	clear := []any{voucherID, t.number}
	t.last = append(t.last, write{query: cleared, args: clear, dependent: cleared, dependentArgs: clear})
	return t.enqueue(write{
		query: `SET @unit = NULL; SELECT part INTO @unit FROM stock_parts
				WHERE voucher_id = ? AND part >= ? AND revision ` + t.expected() + ` AND stock > 0 ORDER BY part LIMIT 1 FOR UPDATE SKIP LOCKED;
			UPDATE stock_parts SET stock = 0, last_writer = ? WHERE voucher_id = ? AND part = @unit AND stock > 0`,
		args:  []any{voucherID, from, t.revision, t.number, voucherID},
		check: t.orAnywhere(voucherID),
	})
}

// orAnywhere is the check of a write that takes one unit from a part: if the part has none, it takes one from
// elsewhere.
func (t *tx) orAnywhere(voucherID int64) func(ctx context.Context, found int64) error {
	return oneRow(func(ctx context.Context) error {
		return t.takeAnywhere(ctx, voucherID)
	})
}

// takeAnywhere takes a unit of a voucher's stock from wherever there is one, within the open transaction. It waits for
// a row that another transaction has locked, and keeps no lock on a row that turns out to be empty. It reads the parts
// again only if another buyer has taken the units that it saw. It returns [voucher.ErrSoldOut] if one read shows no
// stock in any part, and [voucher.ErrChanged] if the voucher has another revision: a change writes the revision to each
// part, see [tx.changeParts].
func (t *tx) takeAnywhere(ctx context.Context, voucherID int64) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	for {
		parts, err := t.partsWithStock(ctx, voucherID)
		switch {
		case err != nil:
			return err
		case len(parts) == 0:
			return voucher.ErrSoldOut
		}
		query, args := "UPDATE vouchers SET stock = stock - 1, version = version + 1 WHERE id = ?", []any{voucherID}
		if part := parts[rand.IntN(len(parts))]; part.Valid {
			query = "UPDATE stock_parts SET stock = stock - 1 WHERE voucher_id = ? AND part = ?"
			args = append(args, part.Int64)
		}
		query, args = query+" AND revision "+t.expected()+" AND stock > 0", append(args, t.revision)
		if found, err := t.run(ctx, query, args...); err != nil || found == 1 {
			return err
		}
	}
}

// somePartsOnly is how many parts with stock are read: enough for the buyers to disperse.
const somePartsOnly = 64

// partsWithStock lists parts in which a voucher has stock; if there are many, only some of them. NULL is the voucher's
// own row. It returns [voucher.ErrNotFound] if there is no such voucher.
func (t *tx) partsWithStock(ctx context.Context, voucherID int64) (parts []sql.NullInt64, err error) {
	const query = `SELECT NULL AS part, stock, revision FROM vouchers WHERE id = ? UNION ALL
		SELECT part, stock, 0 FROM (SELECT part, stock FROM stock_parts WHERE voucher_id = ? AND stock > 0 LIMIT ?) p`
	exists, changed := false, false
	err = t.readRows(ctx, query, []any{voucherID, voucherID, somePartsOnly}, func(rows *sql.Rows) error {
		var part sql.NullInt64
		var stock, revision int64
		err := rows.Scan(&part, &stock, &revision)
		if !part.Valid {
			exists, changed = true, t.revision != 0 && revision != t.revision
		}
		if stock > 0 {
			parts = append(parts, part)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, voucher.ErrNotFound
	case changed:
		return nil, fmt.Errorf("%w: it no longer has revision %d", voucher.ErrChanged, t.revision)
	}
	return parts, nil
}

// lockParts locks all parts of a voucher whose row is locked, and returns those with stock. It waits for the transactions
// that have taken from them.
func (t *tx) lockParts(ctx context.Context, v *voucher.Voucher) (parts []partRow, err error) {
	if v.Parts() == 0 {
		return nil, nil
	}
	query := "SELECT part, stock FROM stock_parts WHERE voucher_id = ? ORDER BY part"
	if t.db.batches {
		query += " FOR UPDATE"
	}
	err = t.readRows(ctx, query, []any{v.ID}, func(rows *sql.Rows) error {
		p := partRow{VoucherID: v.ID}
		err := rows.Scan(&p.Part, &p.Stock)
		if p.Stock > 0 {
			parts = append(parts, p)
		}
		return err
	})
	return parts, err
}

// changeParts writes a revision to all parts of a voucher, and takes n units away from them. A transaction that was
// decided by an earlier revision then finds no part.
func (t *tx) changeParts(v *voucher.Voucher, parts []partRow, n int64) error {
	if v.Parts() == 0 {
		return nil
	}
	for _, p := range parts {
		if n == 0 {
			break
		}
		some := min(n, p.Stock)
		n -= some
		w := write{query: "UPDATE stock_parts SET stock = stock - ? WHERE voucher_id = ? AND part = ?", args: []any{some, v.ID, p.Part}}
		if v.Policy.Stock == voucher.StockUnits { // a unit without stock would be in the way
			w = write{query: "DELETE FROM stock_parts WHERE voucher_id = ? AND part = ?", args: []any{v.ID, p.Part}}
		}
		if err := t.enqueue(w); err != nil {
			return err
		}
	}
	return t.enqueue(write{query: "UPDATE stock_parts SET revision = ? WHERE voucher_id = ?", args: []any{v.Revision, v.ID}})
}
