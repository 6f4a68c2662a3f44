package idworker

import (
	"database/sql"
	"testing"
	"time"

	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The service locks its machine ids in rows.
func TestMachineIDsAsRows(t *testing.T) {
	db, err := sql.Open("mysql", testkit.MariaDB(t).DSN)
	fail.NowIf(t, err)
	defer db.Close()
	mysqlstore.Migrate(t, db, "0004_lock_rows")
	locker, err := row.New(db, row.Config{Expiry: true})
	fail.NowIf(t, err)
	defer locker.Close()
	cfg := Config{Machines: 1, FirstMachine: 100, LastMachine: 101, TTL: time.Minute}
	first, second := withLocks(t, locker, cfg), withLocks(t, locker, cfg)
	mintFromAll(t, []*Sonyflake{first, second}, 100, 101)
	fail.If(t, first.Close(t.Context()))
	third := withLocks(t, locker, cfg)
	mintFromAll(t, []*Sonyflake{second, third}, 100, 101)
	for _, s := range []*Sonyflake{second, third} {
		fail.If(t, s.Close(t.Context()))
	}
}
