package idworker

import (
	"database/sql"
	"testing"
	"time"

	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
)

// The service locks its machine ids in rows.
func TestMachineIDsAsRows(t *testing.T) {
	db, err := sql.Open("mysql", testkit.MariaDB(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mysqlstore.Migrate(t, db, "0004_lock_rows")
	locker, err := row.New(db, row.Config{Expiry: true})
	if err != nil {
		t.Fatal(err)
	}
	defer locker.Close()
	cfg := Config{Machines: 1, FirstMachine: 100, LastMachine: 101, TTL: time.Minute}
	first, second := withLocks(t, locker, cfg), withLocks(t, locker, cfg)
	mintFromAll(t, []*Sonyflake{first, second}, 100, 101)
	if err := first.Close(t.Context()); err != nil {
		t.Error(err)
	}
	third := withLocks(t, locker, cfg)
	mintFromAll(t, []*Sonyflake{second, third}, 100, 101)
	for _, s := range []*Sonyflake{second, third} {
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
