package database

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// newest is the version of the newest migration.
const newest = 25

// tables lists the tables that the migrations create. SQLite has none for locks and for flushes.
func tables(where testkit.Database) []string {
	made := []string{"vouchers", "orders", "idempotency_keys", "admission_seqs", "order_payments", "payments", "admission_returns", "returned_orders"}
	if where.Engine != "sqlite" {
		made = append(made, "lock_rows", "lock_for_update", "log_flushes")
	}
	return made
}

func TestMigrateForwardBackAndForward(t *testing.T) {
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) {
		d := open(t, databaseConfig(where))
		steps := []struct {
			name string
			run  func() (Migration, error)
			want Migration
		}{
			{"up", func() (Migration, error) { return d.Migrate(t.Context()) }, Migration{0, newest}},
			{"up again", func() (Migration, error) { return d.Migrate(t.Context()) }, Migration{newest, newest}},
			{"down", func() (Migration, error) { return d.MigrateDown(t.Context()) }, Migration{newest, 0}},
			{"down again", func() (Migration, error) { return d.MigrateDown(t.Context()) }, Migration{0, 0}},
			{"up once more", func() (Migration, error) { return d.Migrate(t.Context()) }, Migration{0, newest}},
		}
		for _, step := range steps {
			got, err := step.run()
			if err != nil || got != step.want {
				t.Fatalf("%s: %+v, %v; want %+v", step.name, got, err, step.want)
			}
			for _, table := range tables(where) {
				_, err := d.singles.ExecContext(t.Context(), "DELETE FROM "+table)
				if there := err == nil; there != (step.want.To == newest) {
					t.Errorf("%s: table %s is there: %t, %v", step.name, table, there, err)
				}
			}
		}
		createVoucher(t, d, 1, 1)
		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "UPDATE schema_migrations SET dirty = 1")))
		if _, err := d.Migrate(t.Context()); err == nil {
			t.Error("went on with a schema of which nobody knows how far it came")
		}
	})
}

func TestMigrateByManyStartersAtOnce(t *testing.T) {
	t.Parallel()
	testkit.SQLEngines(t, func(t *testing.T, where testkit.Database) { migrateAtOnce(t, 6, where) })
}

// migrateAtOnce starts several processes at once, each with connections of its own. One does the work, and the others
// wait.
func migrateAtOnce(t *testing.T, starters int, where ...testkit.Database) {
	t.Helper()
	results := make([]Migration, starters)
	allAtOnce(t, starters, func(i int) error {
		d, err := Open(t.Context(), databaseConfig(where[i%len(where)]))
		if err != nil {
			return err
		}
		defer d.Close()
		if results[i], err = d.Migrate(t.Context()); err != nil {
			return fmt.Errorf("by starter %d: %w", i, err)
		}
		return nil
	})
	worked := 0
	for _, result := range results {
		fail.Unequal(t, result.To, newest, "a starter found version")
		if result.From == 0 {
			worked++
		}
	}
	fail.Unequal(t, worked, 1, "starters did the work")
}

// In a Galera cluster migrations have a lock in a table. A process that waits takes it over when the owner is dead: its
// number has not changed for deadAfter readings. If the owner turns out to be alive, it cannot go on.
func TestClusterLockOfADeadMigration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := open(t, databaseConfig(testkit.SQLite(t)))
		_, err := d.singles.ExecContext(t.Context(), "CREATE TABLE schema_migrations_owner (id INT PRIMARY KEY, owner VARCHAR(32) NOT NULL, beat BIGINT NOT NULL)")
		fail.NowIf(t, err)
		fail.NowIf(t, fail.Of(d.singles.ExecContext(t.Context(), "INSERT INTO schema_migrations_owner VALUES (1, '', 0)")))
		first, second := newClusterLock(d.singles), newClusterLock(d.singles)
		fail.NowIf(t, first.take(t.Context()))
		free := first.keep(t.Context())
		taken := make(chan error, 1)
		go func() { taken <- second.take(t.Context()) }()
		simulate.Sleep(time.Hour)
		if len(taken) > 0 {
			t.Fatalf("taken from a living owner: %v", <-taken)
		}
		fail.NowIf(t, free())
		fail.NowIf(t, <-taken)

		began := time.Now()
		fail.NowIf(t, first.take(t.Context())) // nobody beats any more
		fail.Unequal(t, time.Since(began), deadAfter*second.pause, "taken from a dead owner after")
		fail.Unless(t, second.beat(t.Context()), errLockLost)
		fail.Unless(t, clusterMigrations{lock: second}.SetVersion(1, true), errLockLost)
	})
}
