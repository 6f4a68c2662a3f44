package database

import (
	"database/sql"
	"strings"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// While a voucher is rebuilt it is closed, so its orders are read from an index that has all that is needed of them.
func TestLiveOrdersAreReadFromTheIndexAlone(t *testing.T) {
	testkit.Servers(t)
	engines(t, func(t *testing.T, d *DB) {
		if d.RowPool() == nil {
			t.Skip("the plan of SQLite has another form")
		}
		openVoucher(t, d, 1, 10)
		rows, err := d.RowPool().QueryContext(t.Context(), "EXPLAIN "+liveOrdersQuery, 1, 0, 5000)
		fail.NowIf(t, err)
		defer rows.Close()
		columns, err := rows.Columns()
		fail.NowIf(t, err)
		var plan strings.Builder // each server has a form of its own
		for rows.Next() {
			values, places := make([]sql.NullString, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			fail.NowIf(t, rows.Scan(places...))
			for _, v := range values {
				plan.WriteString(v.String + " ")
			}
		}
		if !strings.Contains(plan.String(), "orders_live") || !strings.Contains(strings.ToLower(plan.String()), "index") {
			t.Errorf("the plan is %s", &plan)
		}
		fail.NowIf(t, rows.Err())
	})
}
