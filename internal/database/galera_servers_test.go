package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/idempotency"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// TestGalera uses a real cluster with two writers. The subtests share it, since it takes seconds to start.
func TestGalera(t *testing.T) {
	t.Parallel()
	cluster := testkit.Galera(t, 3)
	for name, test := range map[string]func(t *testing.T, here, there *DB){
		"packet":              packetAfterAnAbort,
		"packet of a batch":   batchAfterAnAbort,
		"separate statements": statementsAfterAnAbort,
		"batch":               batchesFromTwoNodes,
		"parts":               partsFromTwoNodes,
		"groups":              groupsFromTwoNodes,
		"reads":               readsAfterAnotherNodesCommit,
		"reads that fail":     readsOfANodeThatCannotWait,
		"reservation":         reservationOnTwoNodes,
	} {
		t.Run(name, func(t *testing.T) {
			where := cluster.Database(t)
			test(t, openMigrated(t, databaseConfig(where[0])), open(t, databaseConfig(where[1])))
		})
	}
	t.Run("migration", func(t *testing.T) { writeBehindAMigration(t, cluster.Database(t)) })
	t.Run("migrations", func(t *testing.T) {
		where := cluster.Database(t)
		migrateAtOnce(t, 2*len(where), where...)
	})
}

// writeBehindAMigration writes on a node that has not applied yet what was migrated on another one. Its connection is
// older than the schema, as in a pool whose connections lead to several nodes.
func writeBehindAMigration(t *testing.T, where []testkit.Database) {
	here, there := open(t, databaseConfig(where[0])), open(t, databaseConfig(where[1]))
	conn, err := there.locks.Conn(t.Context())
	fail.NowIf(t, err)
	defer conn.Close()
	fail.NowIf(t, fail.Of(conn.ExecContext(t.Context(), "FLUSH TABLES WITH READ LOCK"))) // the node applies nothing
	fail.NowIf(t, fail.Of(here.Migrate(t.Context())))

	written := make(chan error, 1)
	go func() { written <- there.Vouchers().CreateVoucher(t.Context(), newVoucher(1, 1)) }()
	testkit.Until(t, "the write waits, or has failed", func() bool {
		var waiting int
		fail.NowIf(t, conn.QueryRowContext(t.Context(),
			"SET STATEMENT wsrep_sync_wait = 0 FOR SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'INSERT INTO%vouchers%'").Scan(&waiting))

		return waiting == 1 || len(written) == 1
	})
	fail.NowIf(t, fail.Of(conn.ExecContext(t.Context(), "UNLOCK TABLES")))
	fail.If(t, <-written, "on a node that was behind")
}

// padded joins statements to a packet with a wide gap after the first one.
func padded(first string, rest ...string) string {
	return first + "; " + strings.Repeat("DO 0; ", 200) + strings.Join(rest, "; ")
}

// abortPackets makes the other node write to the voucher all the time, which aborts the transactions of this one. It
// sends packets until enough, and counts those that were answered with the abort.
func abortPackets(t *testing.T, here, there *DB, firstID int64, enough func(aborted int) bool,
	send func(ctx context.Context, conn *sql.Conn, id int64) error,
) (aborted int) {
	t.Helper()
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default: // an error is of no interest: the next one may do
					_, _ = there.singles.Exec("UPDATE vouchers SET title = ? WHERE id = 1", fmt.Sprint(time.Now().UnixNano()))
				}
			}
		})
	}
	defer others.Wait()
	defer close(stop)
	for began, id := time.Now(), firstID; !enough(aborted); id++ {
		if time.Since(began) > 2*time.Minute { // three nodes may get little of a busy machine
			t.Fatalf("%d packets were aborted, and not enough happened", aborted)
		}
		conn, err := here.writers.Conn(t.Context())
		fail.NowIf(t, err)
		err = send(t.Context(), conn, id)
		_, rolledBack := conn.ExecContext(t.Context(), "ROLLBACK")
		fail.NowIf(t, errors.Join(rolledBack, conn.Close()))
		if err == nil {
			continue
		}
		fail.NowUnequal(t, failureOf(err), collision, "%v", err)
		aborted++
	}
	return aborted
}

// packetAfterAnAbort compares two forms of an order in one packet. The form with ROW_COUNT() shows that packets are
// aborted between two statements. The form in use must never leave an order without its decrement.
func packetAfterAnAbort(t *testing.T, here, there *DB) {
	createVoucher(t, here, 1, 1_000_000)
	halves := 0
	form := func(after func(insert write) (string, []any)) func(ctx context.Context, conn *sql.Conn, id int64) error {
		return func(ctx context.Context, conn *sql.Conn, id int64) error {
			x := &tx{db: here, number: id}
			fail.NowIf(t, errors.Join(x.Decrement(ctx, 1), x.Insert(ctx, newOrder(id, 1, id), true)))
			insert, args := after(x.pending[1])
			_, err := conn.ExecContext(ctx, padded(x.pending[0].query, insert, "COMMIT"), append(x.pending[0].args, args...)...)
			if err != nil {
				if _, look := here.Orders().Order(ctx, id); look == nil {
					halves++
				}
			}
			return err
		}
	}
	aborted := abortPackets(t, here, there, 1, func(int) bool { return halves >= 3 }, form(func(insert write) (string, []any) {
		return strings.Replace(insert.query, "VALUES (?, ?, ?, ?, ?, ?)", "SELECT ?, ?, ?, ?, ?, ? FROM DUAL WHERE ROW_COUNT() <> 9", 1), insert.args
	}))
	t.Logf("without the number: %d of %d aborted packets left an order without its decrement", halves, aborted)
	before, wanted := halves, 2*aborted
	halves = 0
	aborted = abortPackets(t, here, there, 1_000_000, func(aborted int) bool { return aborted >= wanted }, form(func(insert write) (string, []any) {
		return insert.dependent, insert.dependentArgs
	}))
	t.Logf("with it: %d of %d", halves, aborted)
	audit, err := here.Orders().Audit(t.Context(), 1)
	fail.NowIf(t, err)
	if sold := audit.InitialStock - audit.Stock; halves > 0 || audit.Orders != sold+int64(before) {
		t.Errorf("%d orders without a decrement; %d orders, %d of them of the first form, for %d vouchers sold", halves, audit.Orders, before, sold)
	}
}

// batchAfterAnAbort sends the packet of a batch, and then COMMIT if the answer has no error.
func batchAfterAnAbort(t *testing.T, here, there *DB) {
	openVoucher(t, here, 1, 1_000_000)
	committed := int64(0)
	aborted := abortPackets(t, here, there, 1, func(aborted int) bool { return aborted >= 50 }, func(ctx context.Context, conn *sql.Conn, id int64) error {
		x := &tx{db: here, number: id}
		fail.NowIf(t, x.persist([]contract.Accepted{accepted(id, 1, id)}, nil, nil, maxGeneration))
		insert, take := x.pending[0], x.pending[1]
		_, err := conn.ExecContext(ctx, padded(insert.query, take.query), append(insert.args, take.args...)...)
		if err != nil {
			return err
		}
		if _, err = conn.ExecContext(ctx, "COMMIT"); err == nil {
			committed++
		}
		return err
	})
	t.Logf("%d packets committed, %d aborted", committed, aborted)
	wantAudit(t, here, order.Audit{InitialStock: 1_000_000, Stock: 1_000_000 - committed, Orders: committed, DistinctUsers: committed})
}

// A transaction is aborted between two round trips: the next statement is refused and not carried out, and the
// transaction is repeated.
func statementsAfterAnAbort(t *testing.T, here, there *DB) {
	createVoucher(t, here, 1, 5)
	attempts := 0
	fail.NowIf(t, transact(t, here, func(ctx context.Context, tx order.Tx) error {
		attempts++
		if err := flushed(ctx, tx, tx.Decrement(ctx, 1)); err != nil {
			return err
		}
		if attempts == 1 {
			fail.NowIf(t, transact(t, there, func(ctx context.Context, tx order.Tx) error {
				return errors.Join(tx.Decrement(ctx, 1), tx.Insert(ctx, newOrder(2, 1, 43), true))
			}))

			testkit.Until(t, "the other's order is here", func() bool {
				_, err := here.Orders().Order(ctx, 2)
				return err == nil
			})
		}
		return flushed(ctx, tx, tx.Insert(ctx, newOrder(1, 1, 42), true))
	}))

	fail.Unequal(t, attempts, 2, "attempts")
	wantAudit(t, here, order.Audit{InitialStock: 5, Stock: 3, Orders: 2, DistinctUsers: 2})
}

// batchesFromTwoNodes persists batches on two nodes at once, some of them on both, as when another process claims
// entries.
func batchesFromTwoNodes(t *testing.T, here, there *DB) {
	const batches, size = 40, 25
	openVoucher(t, here, 1, batches*size)
	var collisions atomic.Int64
	allAtOnce(t, 8, func(i int) error {
		store := []*DB{here, there}[i%2].AdmissionStore()
		for n := i / 4; n < batches; n += 2 { // each batch by four of them, on both nodes
			batch := acceptedRange(int64(n*size+1), int64((n+1)*size+1), 1)
			for tries := 0; ; tries++ {
				_, err := store.Persist(t.Context(), batch)
				if err == nil {
					break
				}
				if failureOf(err) != collision || tries == 50 {
					return err
				}
				collisions.Add(1)
			}
		}
		return nil
	})
	t.Logf("%d batches of %d, each from both nodes; given up after repeated collisions: %d", batches, size, collisions.Load())
	wantAudit(t, there, order.Audit{InitialStock: batches * size, Orders: batches * size, DistinctUsers: batches * size})
}

// readsAfterAnotherNodesCommit reads on one node what was just committed on another, behind a transaction that takes
// long to apply.
func readsAfterAnotherNodesCommit(t *testing.T, here, there *DB) {
	fail.NowIf(t, fail.Of(here.singles.Exec("CREATE TABLE ballast (id BIGINT PRIMARY KEY, filler VARCHAR(100))")))
	fail.NowIf(t, fail.Of(there.singles.Exec("SELECT COUNT(*) FROM ballast"))) // waits until it is there
	missing := func(from int64, until int, read func(id int64) error) (missed int) {
		for id := from; id < from+10 && missed < until; id++ {
			fail.NowIf(t, fail.Of(here.singles.Exec("INSERT INTO ballast SELECT seq + ?, REPEAT('x', 100) FROM seq_1_to_3000", id*10_000)))
			fail.NowIf(t, transact(t, here, func(ctx context.Context, tx order.Tx) error {
				return tx.Insert(ctx, newOrder(id, 1, id), true)
			}))

			if err := read(id); errors.Is(err, order.ErrNotFound) || errors.Is(err, sql.ErrNoRows) {
				missed++
			} else {
				fail.NowIf(t, err)
			}
		}
		return missed
	}

	conn, err := there.readers.Conn(t.Context())
	fail.NowIf(t, err)
	fail.NowIf(t, fail.Of(conn.ExecContext(t.Context(), "SET SESSION wsrep_sync_wait = 0")))
	without := missing(1, 1, func(id int64) error {
		var found int64
		return conn.QueryRowContext(t.Context(), "SELECT id FROM orders WHERE id = ?", id).Scan(&found)
	})
	fail.NowIf(t, discard(conn))
	if without == 0 {
		t.Error("no read was behind: the test shows nothing")
	}
	with := missing(101, 10, func(id int64) error { return fail.Of(there.Orders().Order(t.Context(), id)) })
	if with > 0 {
		t.Errorf("%d of 10 orders were missing", with)
	}
}

// readsOfANodeThatCannotWait: a node refuses reads that want to wait for what others have committed, with error 1205.
// That lasts for milliseconds where members of the cluster change. Here it may only wait for a moment, and applies
// nothing. The read is repeated for a while; TestReadsOfANodeThatCannotSync says how long.
func readsOfANodeThatCannotWait(t *testing.T, here, there *DB) {
	openVoucher(t, here, 1, 10)
	conn, err := there.locks.Conn(t.Context())
	fail.NowIf(t, err)
	defer conn.Close()
	exec := func(statement string) {
		t.Helper()
		fail.NowIf(t, fail.Of(conn.ExecContext(t.Context(), statement)))
	}
	exec("SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT0.02S'")
	defer exec("SET GLOBAL wsrep_provider_options = 'repl.causal_read_timeout=PT30S'")
	exec("FLUSH TABLES WITH READ LOCK") // the node applies nothing
	openVoucher(t, here, 2, 10)

	// Without repetition the read fails.
	var refused bool
	raw, err := there.writers.Conn(t.Context())
	fail.NowIf(t, err)
	defer raw.Close()
	fail.NowIf(t, raw.Raw(func(c any) error {
		rows, err := c.(*sessionConn).serverConn.QueryContext(t.Context(), "SELECT COUNT(*) FROM vouchers", nil)
		if err == nil {
			err = rows.Close()
		}
		refused = couldNotSync("SELECT", err)
		return nil
	}))

	if !refused {
		t.Fatal("the node did not refuse the read, so the test proves nothing")
	}
	// With it, the read waits for about a second, and never says that there is no such voucher.
	fail.Unless(t, fail.Of(there.Vouchers().Voucher(t.Context(), 2)), order.ErrUnavailable)
	exec("UNLOCK TABLES")
	testkit.Until(t, "the node has caught up", func() bool {
		_, err := there.Vouchers().Voucher(t.Context(), 2)
		if err != nil {
			fail.Unless(t, err, order.ErrUnavailable)
		}
		return err == nil
	})
}

// reservationOnTwoNodes reserves one key on both nodes at once. One of them gets it.
func reservationOnTwoNodes(t *testing.T, here, there *DB) {
	for n := range 50 {
		stores := []*DB{here, there}
		var mine atomic.Int64
		ids := make([]int64, 2)
		allAtOnce(t, 2, func(i int) error {
			key := idempotency.Key{UserID: int64(n + 1), Value: "k"}
			record, reserved, err := stores[i].Idempotency().Begin(t.Context(), key, sumA, int64(n*10+i), noon, never)
			if reserved {
				mine.Add(1)
			}
			ids[i] = record.ResourceID
			return err
		})
		if mine.Load() != 1 || ids[0] != ids[1] {
			t.Fatalf("key %d was reserved by %d, for the ids %v", n, mine.Load(), ids)
		}
	}
}
