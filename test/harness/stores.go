package harness

import (
	"database/sql"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Stores are the database and the Redis that several API processes share.
type Stores struct {
	DB    testkit.Database
	Redis []string // host:port of each
	Env   []string
}

// With adds settings (NAME=value) of the processes.
func (s Stores) With(env ...string) Stores {
	s.Env = append(append([]string(nil), s.Env...), env...)
	return s
}

// NewStores returns a new database on the test binary's MariaDB and a Redis for this test alone: the service uses a
// whole Redis, and tests run in parallel.
func NewStores(t *testing.T) Stores {
	t.Helper()
	return Stores{DB: testkit.MariaDB(t), Redis: []string{testkit.NewRedis(t).Addr()}}
}

// RedisAt returns a client for the Redis at an address.
func RedisAt(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

var appendOnly = []string{"--appendonly", "yes", "--appendfsync"}

// Fsync are the arguments of a Redis that appends to a file and syncs it always, everysec or no.
func Fsync(when string) []string { return append(slices.Clone(appendOnly), when) }

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

// WaitingForRows returns how many transactions of the database wait for a row that another one has locked.
func (s *Sale) WaitingForRows(where testkit.Database) (n int) {
	s.T.Helper()
	db, err := sql.Open("mysql", where.DSN)
	fail.NowIf(s.T, err)
	defer db.Close()
	fail.NowIf(s.T, db.QueryRowContext(s.T.Context(), `SELECT COUNT(*) FROM information_schema.INNODB_TRX t
		JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id
		WHERE p.DB = DATABASE() AND t.trx_state = 'LOCK WAIT'`).Scan(&n))
	return n
}

// Statuses returns the status of each order of a voucher in the database, by id.
func Statuses(t *testing.T, where testkit.Database, voucher string) map[string]string {
	t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	fail.NowIf(t, err)
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT id, status FROM orders WHERE voucher_id = ?", voucher)
	fail.NowIf(t, err)
	defer rows.Close()
	all := map[string]string{}
	for rows.Next() {
		var id int64
		var status string
		fail.NowIf(t, rows.Scan(&id, &status))
		all[strconv.FormatInt(id, 10)] = status
	}
	fail.NowIf(t, rows.Err())
	return all
}
