package idworker

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/testkit"
)

// busyTTL is long enough for a busy machine to renew in time.
const busyTTL = 2 * time.Second

// rowLocker is the lock that the service uses, on a new database.
func rowLocker(t *testing.T) *row.Locker {
	t.Helper()
	db, err := sql.Open("mysql", testkit.MariaDB(t).DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	mysqlstore.Migrate(t, db, "0004_lock_rows")
	locker, err := row.New(db, row.Config{Expiry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locker.Close() })
	return locker
}

func withLocks(t *testing.T, locker lock.Locker, cfg Config) *Sonyflake {
	t.Helper()
	s, err := NewSonyflakeWithLocks(t.Context(), locker, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Several generators share the range, no two at the same time a machine id, and renewals keep what they have.
func TestMachineIDsAsLocks(t *testing.T) {
	locker := rowLocker(t)
	cfg := Config{Machines: 1, FirstMachine: 100, LastMachine: 102, TTL: busyTTL}
	all := []*Sonyflake{withLocks(t, locker, cfg), withLocks(t, locker, cfg), withLocks(t, locker, cfg)}
	full, cancel := context.WithTimeout(t.Context(), 2*cfg.TTL)
	defer cancel()
	if s, err := NewSonyflakeWithLocks(full, locker, cfg); !errors.Is(err, ErrNoLease) {
		t.Errorf("a fourth of three machine ids: %v, %v", s, err)
	}
	seen := map[int64]bool{}
	machines := map[int64]bool{}
	for range 1000 {
		for _, s := range all {
			id, err := s.NextID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if seen[id] {
				t.Fatalf("%d was minted twice", id)
			}
			seen[id], machines[id&0xffff] = true, true
		}
	}
	if len(machines) != 3 || !machines[100] || !machines[101] || !machines[102] {
		t.Errorf("machine ids %v", machines)
	}
}

// A machine id whose lock is taken away is not used any more, and another one is leased.
func TestMachineIDLocksAreRenewedAndReplaced(t *testing.T) {
	locker := rowLocker(t)
	s := withLocks(t, locker, Config{Machines: 1, FirstMachine: 7, LastMachine: 8, TTL: busyTTL})
	machine := func() int64 {
		id, err := s.NextID(t.Context())
		if err != nil {
			return -1
		}
		return id & 0xffff
	}
	first := machine()
	key := map[int64]string{7: "machine-id:7", 8: "machine-id:8"}[first]
	if freed, err := locker.ForceRelease(t.Context(), key); err != nil || !freed {
		t.Fatalf("ForceRelease(%q) = %v, %v", key, freed, err)
	}
	other, err := locker.Acquire(t.Context(), key, lock.Options{TTL: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "the other machine id is leased", func() bool { m := machine(); return m != first && m != -1 })
	if err := other.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
