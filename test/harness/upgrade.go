package harness

import (
	"database/sql"
	"strconv"
	"testing"

	"seckill/internal/testkit"
)

// Statuses returns the status of each order of a voucher in the database, by id.
func Statuses(t *testing.T, where testkit.Database, voucher string) map[string]string {
	t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id, status FROM orders WHERE voucher_id = ?", voucher)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var id int64
		var status string
		if err := rows.Scan(&id, &status); err != nil {
			t.Fatal(err)
		}
		all[strconv.FormatInt(id, 10)] = status
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
