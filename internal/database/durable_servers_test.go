package database

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// stallingServer is a MariaDB whose disk can be made to hang.
type stallingServer struct {
	*testkit.SQLServer
	t    *testing.T
	file string // while it exists, nothing is written to the redo log
}

func newStallingServer(t *testing.T) *stallingServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stall")
	return &stallingServer{testkit.NewMariaDBEnv(t, []string{"STALL=" + file, testkit.Preload(t, "testdata/stall.c")}), t, file}
}

func (s *stallingServer) stall() {
	s.t.Helper()
	fail.NowIf(s.t, os.WriteFile(s.file, nil, 0o600))
}

func (s *stallingServer) release() {
	s.t.Helper()
	if err := os.Remove(s.file); !os.IsNotExist(err) {
		fail.NowIf(s.t, err)
	}
}

// crash kills the server, and starts it again with a disk that works.
func (s *stallingServer) crash() {
	s.t.Helper()
	s.Kill()
	s.release()
	s.Restart()
}

// A commit is visible before it is on the disk. If the server dies in between, the commit is gone. Its own client was
// never told of it; nobody else may have acted on it either.
func TestNobodyActsOnACommitThatACrashUndoes(t *testing.T) {
	t.Parallel()
	server := newStallingServer(t)
	paid := func(payment string, id int64) order.Receipt {
		return order.Receipt{PaymentID: payment, OrderID: id, AmountCents: 8000, At: time.Now()}
	}
	// Order 1 of the locked voucher 1 and order 11 of voucher 2, which is sold by admission, are unpaid. Order 2 is
	// paid. The money of order 3 is being refunded. Order 12 of voucher 2 was cancelled, and Redis knows.
	prepare := func(t *testing.T, d *DB) {
		v := newVoucher(1, 10)
		v.PayWithin = time.Hour
		fail.NowIf(t, d.Vouchers().CreateVoucher(t.Context(), v))
		for id := range int64(3) {
			placeUnpaid(t, d, 1+id, 100+id)
		}
		for id, payment := range map[int64]string{2: "p2", 3: "p3"} {
			fail.NowIf(t, fail.Of(d.Lifecycle().MarkPaid(t.Context(), paid(payment, id))))
		}
		fail.NowIf(t, fail.Of(d.Lifecycle().BeginRefund(t.Context(), 3)))
		v = newVoucher(2, 10)
		v.PayWithin = time.Hour
		openSale(t, d, v)
		fail.NowIf(t, fail.Of(d.AdmissionStore().Persist(t.Context(), acceptedRange(11, 13, 2))))
		fail.NowIf(t, fail.Of(d.Lifecycle().Cancel(t.Context(), 12)))
		due, _, err := d.AdmissionStore().Returns(t.Context(), contract.Return{}, 1)
		fail.NowIf(t, err)
		fail.NowIf(t, d.AdmissionStore().Returned(t.Context(), due[0], 13))
	}
	cancel := func(id int64) func(context.Context, *DB) error {
		return func(ctx context.Context, d *DB) error { _, err := d.Lifecycle().Cancel(ctx, id); return err }
	}
	refund := func(ctx context.Context, d *DB) error { _, err := d.Lifecycle().BeginRefund(ctx, 2); return err }
	settle := func(ctx context.Context, d *DB) error {
		_, err := d.Lifecycle().MarkPaid(ctx, paid("p1", 1))
		return err
	}
	persist := func(ctx context.Context, d *DB) error {
		_, err := d.AdmissionStore().Persist(ctx, acceptedRange(11, 14, 2))
		return err
	}
	reject := func(ctx context.Context, d *DB) error {
		_, err := d.AdmissionStore().Reject(ctx, accepted(21, 2, 21))
		return err
	}
	pay := func(ctx context.Context, d *DB) error {
		_, err := d.Lifecycle().KeepPayment(ctx, order.Payment{OrderID: 1, VoucherID: 1, ID: "p1", AmountCents: 8000, PayBy: time.Now().Add(time.Hour)})
		return err
	}
	late := func(ctx context.Context, d *DB) error {
		_, err := d.Lifecycle().MarkPaid(ctx, paid("p12", 12))
		return err
	}
	refunded := func(ctx context.Context, d *DB) error { return d.Lifecycle().MarkRefunded(ctx, "p3") }
	for _, c := range []struct {
		name    string
		change  func(context.Context, *DB) error // made by one process
		visible string                           // a query that finds a row once the change is visible
		act     func(context.Context, *DB) error // by another process
	}{
		{"an order is persisted", persist, "SELECT 1 FROM orders WHERE id = 13", persist},
		{"an order is rejected", reject, "SELECT 1 FROM orders WHERE id = 21", reject},
		{"a persisted order is to be rejected", persist, "SELECT 1 FROM orders WHERE id = 13", func(ctx context.Context, d *DB) error {
			_, err := d.AdmissionStore().Reject(ctx, accepted(13, 2, 13))
			return err
		}},
		{"an order is placed", func(ctx context.Context, d *DB) error {
			return placeOrder(ctx, d, newOrder(4, 1, 104), true)
		}, "SELECT 1 FROM orders WHERE id = 4", func(ctx context.Context, d *DB) error {
			_, err := d.Orders().DurableOrder(ctx, 4)
			return err
		}},
		{"a voucher is created", func(ctx context.Context, d *DB) error {
			return d.Vouchers().CreateVoucher(ctx, newVoucher(3, 1))
		}, "SELECT 1 FROM vouchers WHERE id = 3", func(ctx context.Context, d *DB) error {
			_, err := d.Vouchers().DurableVoucher(ctx, 3)
			return err
		}},
		{"an order is cancelled", cancel(1), "SELECT 1 FROM orders WHERE id = 1 AND status = 'cancelled'", cancel(1)},
		{"a voucher comes back", cancel(11), "SELECT 1 FROM returned_orders WHERE order_id = 11", func(ctx context.Context, d *DB) error {
			_, _, err := d.AdmissionStore().Returns(ctx, contract.Return{}, 10)
			return err
		}},
		{"the users are copied", cancel(11), "SELECT 1 FROM orders WHERE id = 11 AND status = 'cancelled'", func(ctx context.Context, d *DB) error {
			_, err := d.AdmissionStore().LiveOrders(ctx, 2, 12, 10)
			return err
		}},
		{"money arrives", settle, "SELECT 1 FROM payments WHERE payment_id = 'p1'", settle},
		{"an order is to be paid", persist, "SELECT 1 FROM orders WHERE id = 13", func(ctx context.Context, d *DB) error {
			_, err := d.Lifecycle().PaymentOf(ctx, 13)
			return err
		}},
		{"a payment is created", pay, "SELECT 1 FROM order_payments WHERE order_id = 1 AND payment_id IS NOT NULL", pay},
		{"money comes late", late, "SELECT 1 FROM payments WHERE payment_id = 'p12'", func(ctx context.Context, d *DB) error {
			_, err := d.AdmissionStore().LateMoney(ctx, "", 10)
			return err
		}},
		{"a refund begins", refund, "SELECT 1 FROM orders WHERE id = 2 AND status = 'refunding'", refund},
		{"a refund is due", refund, "SELECT 1 FROM payments WHERE payment_id = 'p2' AND refund_due", func(ctx context.Context, d *DB) error {
			_, err := d.Lifecycle().DueRefunds(ctx, "", 10)
			return err
		}},
		{"a refund is carried out", refunded, "SELECT 1 FROM orders WHERE id = 3 AND status = 'refunded'", refunded},
	} {
		t.Run(c.name, func(t *testing.T) {
			config := databaseConfig(server.Database(t))
			one, other := openMigrated(t, config), open(t, config)
			prepare(t, one)
			find := func() bool {
				var n int
				return one.readers.QueryRowContext(t.Context(), c.visible).Scan(&n) == nil
			}
			if find() {
				t.Fatalf("before the change: %s", c.visible)
			}
			server.stall()
			defer server.release() // if the test ends early
			changed, acted := make(chan error, 1), make(chan error, 1)
			go func() { changed <- c.change(t.Context(), one) }()
			testkit.Until(t, "the change is visible", find)
			go func() { acted <- c.act(t.Context(), other) }()
			testkit.Until(t, "the other process has acted, or waits for the disk", func() bool {
				return len(acted) > 0 || committing(t, one.readers) == 2
			})
			early := len(acted) > 0
			server.crash()
			if err := <-acted; early && err == nil {
				t.Error("the other process acted on a change that is not on the disk")
			} else {
				fail.Unless(t, err, order.ErrUnavailable)
			}
			fail.Unless(t, <-changed, order.ErrUnavailable)
			if find() {
				t.Error("the crash did not undo the change, so the test shows nothing")
			}
			fail.NowIf(t, c.change(t.Context(), one))
			fail.NowIf(t, c.act(t.Context(), other))
		})
	}
}

// committing counts the connections that commit. A voucher is created by one statement, which commits by itself.
func committing(t *testing.T, db *sql.DB) (n int) {
	t.Helper()
	fail.NowIf(t, db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM information_schema.processlist
		WHERE info LIKE '%COMMIT' OR info LIKE 'INSERT INTO `+"`vouchers`"+`%'`).Scan(&n))

	return n
}
