package row

import (
	"context"
	"database/sql"
	"strings"
	"time"
)

// keepExpired is how long an expired row is kept.
const keepExpired = time.Hour

// Sweep deletes rows whose lease ended more than an hour ago, at most limit of them, and returns their number. Nobody
// needs them: such a lock is free, and a row has no counter that must go on. Rows without expiry stay, since nobody can
// distinguish a dead holder from a slow one.
//
// The rows are read before they are deleted by their keys, so that the DELETE does not wait for rows in use. Its
// condition spares a row that was taken over in between.
func Sweep(ctx context.Context, db *sql.DB, limit int) (int64, error) {
	const expired = "mechanism = 'row-expiry' AND expires_at <= UTC_TIMESTAMP(6) - INTERVAL ? MICROSECOND"
	keep := keepExpired.Microseconds()
	names, err := queryNames(ctx, db, "SELECT name FROM lock_rows WHERE "+expired+" LIMIT ?", keep, limit)
	if err != nil || len(names) == 0 {
		return 0, err
	}
	marks := strings.Repeat(", ?", len(names))[2:]
	result, err := db.ExecContext(ctx, "DELETE FROM lock_rows WHERE "+expired+" AND name IN ("+marks+")", append([]any{keep}, names...)...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func queryNames(ctx context.Context, db *sql.DB, query string, args ...any) (names []any, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name []byte
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}
