package database

import (
	"context"
	"database/sql"
	"testing"

	"github.com/go-sql-driver/mysql"
	"gorm.io/gorm"

	"seckill/internal/idempotency"
	"seckill/internal/testkit/fail"
)

// Suppose that a database reports a collision, although it has committed the row. The repetition meets that row, and
// takes it for its own.
func TestRepeatedInsertMeetsItsOwnRow(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		committed := &committedCollisions{ConnPool: d.single.ConnPool}
		d.single = d.single.Session(&gorm.Session{NewDB: true})
		d.single.Statement.ConnPool = committed
		createVoucher(t, d, 1, 5)
		record, mine, err := d.Idempotency().Begin(t.Context(), idempotency.Key{UserID: 42, Value: "k"}, sumA, 7, noon, never)
		if err != nil || !mine || record.ResourceID != 7 {
			t.Errorf("%+v, mine %v, %v", record, mine, err)
		}
		fail.Unequal(t, committed.n, 4, "statements")
		wantStock(t, d, 1, 5, 0)
		// A row that was there before is not its own.
		fail.Unless(t, d.Vouchers().CreateVoucher(t.Context(), newVoucher(1, 5)), errDuplicate)
	})
}

// committedCollisions answers every second statement with a collision, after it has committed.
type committedCollisions struct {
	gorm.ConnPool
	n int
}

func (c *committedCollisions) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	result, err := c.ConnPool.ExecContext(ctx, query, args...)
	if c.n++; err == nil && c.n%2 == 1 {
		return nil, &mysql.MySQLError{Number: 1213}
	}
	return result, err
}
