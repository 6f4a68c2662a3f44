package database

import (
	"context"
	"log/slog"
	"regexp"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A million orders that are not due cost a poll nothing, and orders among them expire when their time to pay is over.
// It logs how late.
func TestSoakExpiryAmongAMillionOrders(t *testing.T) {
	testkit.Soak(t)
	const unpaid, due = 1_000_000, 2_000
	engines(t, func(t *testing.T, d *DB) {
		if !d.batches {
			t.Skip("SQLite is for one process and small sales")
		}
		createVoucher(t, d, 1, unpaid+due)
		pool := d.RowPool()
		exec := func(query string, args ...any) {
			t.Helper()
			fail.NowIf(t, fail.Of(pool.ExecContext(t.Context(), query, args...)))
		}
		exec("CREATE TABLE digits (d INT)")
		exec("INSERT INTO digits VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)")
		const some = 10_000 // in a statement, which must end within the connection's limits
		exec(`INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at)
			SELECT n, 1, n, n, 'unpaid', UTC_TIMESTAMP(6) FROM
			(SELECT 1 + a.d + 10 * b.d + 100 * c.d + 1000 * e.d AS n FROM digits a, digits b, digits c, digits e) numbers`)
		for from := some; from < unpaid; from += some {
			exec(`INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at)
				SELECT id + ?, 1, id + ?, id + ?, 'unpaid', created_at FROM orders WHERE id <= ?`, from, from, from, some)
		}
		for from := 0; from < unpaid; from += some {
			exec(`INSERT INTO order_payments (order_id, voucher_id, bucket, amount_cents, pay_by, unpaid, unpaid_at)
				SELECT id, 1, 0, 8000, UTC_TIMESTAMP(6) + INTERVAL 1 DAY + INTERVAL id SECOND, TRUE, created_at FROM orders
				WHERE id > ? AND id <= ?`, from, from+some)
		}
		exec("ANALYZE TABLE orders, order_payments")

		const polls = 200
		slowest, all := time.Duration(0), time.Now()
		for range polls {
			begun := time.Now()
			if n, err := d.Lifecycle().ExpireDue(t.Context(), 500); n != 0 || err != nil {
				t.Fatalf("%d orders expired, %v", n, err)
			}
			slowest = max(slowest, time.Since(begun))
		}
		t.Logf("%d polls among %d unpaid orders: %v each, %v the slowest", polls, unpaid, (time.Since(all) / polls).Round(time.Microsecond), slowest.Round(time.Microsecond))
		explainDue(t, d)

		// The due ones are spread over two seconds, which begin when they are there, and two processes poll.
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		for range 2 {
			lifecycle, err := order.NewLifecycle(order.LifecycleConfig{Store: d.Lifecycle(), Orders: new(order.Service), Log: slog.New(slog.DiscardHandler)})
			fail.NowIf(t, err)
			go func() { lifecycle.RunExpiry(ctx); ended <- struct{}{} }()
		}
		exec(`INSERT INTO orders (id, voucher_id, user_id, unique_user_id, status, created_at)
			SELECT id + ?, 1, user_id + ?, unique_user_id + ?, 'unpaid', created_at FROM orders WHERE id <= ?`, unpaid, unpaid, unpaid, due)
		exec(`INSERT INTO order_payments (order_id, voucher_id, bucket, amount_cents, pay_by, unpaid, unpaid_at)
			SELECT id, 1, 0, 8000, UTC_TIMESTAMP(6) + INTERVAL 5 SECOND + INTERVAL (id - ?) * 1000 MICROSECOND, TRUE, created_at FROM orders WHERE id > ?`, unpaid, unpaid)
		testkit.Until(t, "all due orders are expired", func() bool {
			var left int
			fail.NowIf(t, pool.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders WHERE id > ? AND status = 'unpaid'", unpaid).Scan(&left))
			return left == 0
		})
		cancel()
		<-ended
		<-ended
		var late, mean float64
		fail.NowIf(t, pool.QueryRowContext(t.Context(), `SELECT MAX(TIMESTAMPDIFF(MICROSECOND, pay_by, expired_at)) / 1e6,
			AVG(TIMESTAMPDIFF(MICROSECOND, pay_by, expired_at)) / 1e6 FROM order_payments WHERE order_id > ?`, unpaid).Scan(&late, &mean))

		t.Logf("%d orders expired %.2f s late at most, %.2f s on average", due, late, mean)
		if late > 10 { // docs/http-api.md says 2 s, which a machine that is busy with other tests does not keep
			t.Errorf("an order expired %.2f s late", late)
		}
	})
}

// explainDue logs how the database finds what is due, and fails unless it reads the index.
func explainDue(t *testing.T, d *DB) {
	t.Helper()
	readRows(t, d, `EXPLAIN FORMAT=JSON SELECT order_id, bucket FROM order_payments
		WHERE unpaid = TRUE AND pay_by <= UTC_TIMESTAMP(6) ORDER BY pay_by LIMIT 500`, func(plan string) {
		t.Logf("EXPLAIN: %s", plan)
		if !regexp.MustCompile(`"(key|index_name)": "order_payments_due"`).MatchString(plan) { // MariaDB, MySQL
			t.Error("the index order_payments_due is not used")
		}
	})
}

func TestSoakCancelPayAndExpireAtTheSameInstant(t *testing.T) {
	testkit.Soak(t)
	engines(t, func(t *testing.T, d *DB) { sameInstant(t, d, 1000) })
}
