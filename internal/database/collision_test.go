package database

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-sql-driver/mysql"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Two processes use one file: the busy timeout runs out, and the transaction is repeated.
func TestBusyFileRepeatsTheTransaction(t *testing.T) {
	t.Parallel()
	where := testkit.SQLite(t)
	c := databaseConfig(where)
	c.LockWait = time.Millisecond
	c.MaxAttempts = 1000
	d, other := openMigrated(t, c), open(t, c)
	createVoucher(t, d, 1, 10)

	attempts := 0
	tried := make(chan struct{})
	holding := make(chan struct{})
	allAtOnce(t, 2, func(i int) error {
		if i == 0 {
			return transact(t, other, func(ctx context.Context, tx order.Tx) error {
				err := flushed(ctx, tx, tx.Decrement(ctx, 1))
				close(holding)
				<-tried
				return err
			})
		}
		<-holding
		return transact(t, d, func(ctx context.Context, tx order.Tx) error {
			if attempts++; attempts == 3 {
				close(tried)
			}
			return tx.Decrement(ctx, 1)
		})
	})
	if attempts < 3 {
		t.Errorf("%d attempts", attempts)
	}
	wantStock(t, d, 1, 8, 2)
}

// Retries are bounded by number, by time and by the context. Transactions that abort each other in a cluster are
// repeated more often than elsewhere, but not if each attempt waits.
func TestRetriesAreBounded(t *testing.T) {
	t.Parallel()
	lockWait := &mysql.MySQLError{Number: 1205}
	for name, tc := range map[string]struct {
		cluster           bool
		err               error
		limit, each       time.Duration // of the context, of an attempt
		attempts          int           // 0: until the context ends
		shortest, longest time.Duration
	}{
		"deadlocks":                        {false, errDeadlock, time.Hour, 0, 5, 15 * time.Millisecond, 30 * time.Millisecond}, // half to the whole of 2+4+8+16 ms
		"the context ends":                 {false, errDeadlock, 8 * time.Millisecond, 0, 0, 8 * time.Millisecond, 8 * time.Millisecond},
		"a cluster's nodes abort at once":  {true, lockWait, time.Hour, time.Millisecond, 5 * clusterAttempts, 0, clusterFor},
		"the applier of a node is blocked": {true, lockWait, time.Hour, 5 * time.Second, 5, 25 * time.Second, 26 * time.Second},
		"the applier of a node is slow":    {true, lockWait, time.Hour, 800 * time.Millisecond, 7, 0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &DB{config: Config{MaxAttempts: 5}.withDefaults(), engine: engine{galera: &cluster{}}}
				d.galera.member.Store(tc.cluster)
				ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
				defer cancel()
				began, attempts := time.Now(), 0
				err := d.retry(ctx, func() error {
					attempts++
					simulate.Sleep(tc.each)
					return translate(ctx, tc.err)
				})
				if took := time.Since(began); took < tc.shortest || took > tc.longest || tc.attempts > 0 && attempts != tc.attempts {
					t.Errorf("%d attempts in %v", attempts, took)
				}
				if tc.attempts == 0 {
					fail.Unless(t, err, context.DeadlineExceeded)
				} else {
					fail.Unless(t, err, order.ErrUnavailable)
					fail.Unless(t, err, tc.err)
				}
			})
		})
	}
}

var errDeadlock = &mysql.MySQLError{Number: 1213, Message: "Deadlock found"}

// A unique index that somebody has added refuses orders. No user has a second order, so no order is at fault.
func TestDuplicateOfAnUnknownIndex(t *testing.T) {
	engines(t, func(t *testing.T, d *DB) {
		openVoucher(t, d, 1, 10)
		openVoucher(t, d, 2, 10)
		store, first, second := d.AdmissionStore(), accepted(1, 1, 41), accepted(2, 2, 41)
		fail.NowIf(t, fail.Of(store.Persist(t.Context(), []contract.Accepted{first})))
		for _, index := range []string{"user_id", "created_at"} { // the second one refuses rejected orders, too
			fail.NowIf(t, fail.Of(d.writers.ExecContext(t.Context(), "CREATE UNIQUE INDEX strange ON orders ("+index+")")))
			_, err := store.Persist(t.Context(), []contract.Accepted{second})
			if !errors.Is(err, order.ErrUnavailable) || errors.Is(err, order.ErrAlreadyOrdered) {
				t.Errorf("a unique index on %s: %v", index, err)
			}
			fail.Unless(t, fail.Of(store.Reject(t.Context(), second)), order.ErrUnavailable, "a unique index on %s", index)
			drop := "DROP INDEX strange ON orders"
			if d.name == "sqlite" {
				drop = "DROP INDEX strange"
			}
			fail.NowIf(t, fail.Of(d.writers.ExecContext(t.Context(), drop)))
		}
		persists(t, d, order.Confirmed, []contract.Accepted{second})
		fail.Unless(t, fail.Of(store.Persist(t.Context(), []contract.Accepted{accepted(3, 2, 41)})), order.ErrAlreadyOrdered)
	})
}
