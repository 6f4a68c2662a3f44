package harness

import (
	"database/sql"

	"seckill/internal/testkit"
)

// HoldRow locks the voucher's row, so that no order is persisted until release is called.
func (s *Sale) HoldRow(where testkit.Database) (release func()) {
	s.T.Helper()
	db, err := sql.Open("mysql", where.DSN)
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(s.T.Context(), nil)
	if err != nil {
		s.T.Fatal(err)
	}
	if _, err := tx.ExecContext(s.T.Context(), "SELECT id FROM vouchers WHERE id = ? FOR UPDATE", s.Voucher); err != nil {
		s.T.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			s.T.Error(err)
		}
	}
}
