package chaos

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"seckill/internal/payment"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// lifecycleSum adds up what the rounds came to.
type lifecycleSum struct {
	orders, paid, refunded int
	cents                  int64
	states, outcomes       map[string]int
	late                   int // payments that came late under the admission flow and have bought a unit
}

// providerPayment is a payment in the provider's books.
type providerPayment struct {
	payment.Payment
	Refunds []payment.Refund
}

// listPayments reads the provider's books from a place on.
func (c *lifecycleChaos) listPayments() (all []providerPayment, err error) {
	for after, more := 0, true; more; {
		status, body := c.send(http.MethodGet, c.providerURL+"/v1/payments?after="+strconv.Itoa(after), 0,
			http.Header{"Authorization": {"Bearer " + harness.PaymentKey}}, "")
		if status != http.StatusOK {
			return nil, fmt.Errorf("%d %s", status, body)
		}
		var page struct {
			Payments []providerPayment
			Next     int
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Payments...)
		after, more = page.Next, page.Next != 0
	}
	return all, nil
}

// bookedRound is what the stores have of a round.
type bookedRound struct {
	orders   map[string]bookedLifecycle // by id
	stock    int                        // the database's
	payments []providerPayment          // of these orders
}

// bookedLifecycle is an order in the database.
type bookedLifecycle struct {
	user   int
	status string
}

// read reads the books of a round. What is still on its way makes it an errNotAtRest. Money only moves on: once the
// provider's payments are final and known, and then nothing is due in the database, the provider's books are final. The
// orders are read at one moment with what is due: late money that is decided in between changes an order and the stock.
func (c *lifecycleChaos) read(r *lifecycleRound) (b bookedRound, err error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	if b.orders, err = readOrders(ctx, c.books, r); err != nil {
		return b, err
	}
	if _, err := c.paymentsOf(ctx, b.orders); err != nil {
		return b, err
	}
	moment, err := c.books.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil {
		return b, err
	}
	defer func() { _ = moment.Rollback() }()
	if b.orders, err = readOrders(ctx, moment, r); err != nil {
		return b, err
	}
	var returning, due int
	const open = `SELECT (SELECT stock FROM vouchers WHERE id = ?) + (SELECT COALESCE(SUM(stock), 0) FROM stock_parts WHERE voucher_id = ?), (SELECT COUNT(*) FROM returned_orders WHERE voucher_id = ?),
		(SELECT COUNT(*) FROM payments p JOIN orders o ON o.id = p.order_id WHERE o.voucher_id = ? AND (p.refund_due OR p.outcome = 'late'))`
	if err := moment.QueryRowContext(ctx, open, r.Voucher, r.Voucher, r.Voucher, r.Voucher).Scan(&b.stock, &returning, &due); err != nil {
		return b, err
	}
	if returning+due > 0 {
		return b, fmt.Errorf("%w: %d returns are due, and %d refunds or decisions about late money", errNotAtRest, returning, due)
	}
	b.payments, err = c.paymentsOf(ctx, b.orders)
	return b, err
}

func readOrders(ctx context.Context, books interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, r *lifecycleRound,
) (map[string]bookedLifecycle, error) {
	rows, err := books.QueryContext(ctx, "SELECT id, user_id, status FROM orders WHERE voucher_id = ?", r.Voucher)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	orders := map[string]bookedLifecycle{}
	for rows.Next() {
		var id string
		var o bookedLifecycle
		if err := rows.Scan(&id, &o.user, &o.status); err != nil {
			return nil, err
		}
		if o.status == "unpaid" || o.status == "refunding" || o.status == "pending" {
			return nil, fmt.Errorf("%w: order %s is %s", errNotAtRest, id, o.status)
		}
		orders[id] = o
	}
	return orders, rows.Err()
}

// paymentsOf returns the provider's payments of some orders, if all of them are final and the database knows those that
// were paid.
func (c *lifecycleChaos) paymentsOf(ctx context.Context, orders map[string]bookedLifecycle) (some []providerPayment, err error) {
	all, err := c.listPayments()
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		if _, ours := orders[p.Reference]; !ours {
			continue
		}
		some = append(some, p)
		var known int
		if err := c.books.QueryRowContext(ctx, "SELECT COUNT(*) FROM payments WHERE payment_id = ?", p.ID).Scan(&known); err != nil {
			return nil, err
		}
		if !p.Final() || p.Status == payment.StatusPaid && known == 0 {
			return nil, fmt.Errorf("%w: payment %s is %s, and %d of it is known", errNotAtRest, p.ID, p.Status, known)
		}
	}
	return some, nil
}

// checkRound waits until a round has come to rest, and checks what it came to.
func (c *lifecycleChaos) checkRound(n int, r *lifecycleRound) {
	c.t.Helper()
	harness.WaitReady(c.t, c.apis[:]...)
	if r.Buckets > 0 {
		r.Drained(c.redisClient())
	}
	var b bookedRound
	var err error
	defer func() {
		if err != nil {
			c.t.Logf("round %d, voucher %s: %v", n, r.Voucher, err)
		}
	}()
	testkit.Until(c.t, "the round comes to rest", func() bool {
		b, err = c.read(r)
		return err == nil
	})
	paid := map[string]bool{}
	live := map[int]int{} // orders with a voucher, by user
	for id, o := range b.orders {
		c.sum.orders++
		c.sum.states[o.status]++
		if paid[id] = o.status == "paid"; paid[id] {
			live[o.user]++
		}
	}
	for user, orders := range live {
		if orders > 1 {
			c.t.Errorf("round %d: user %d has %d units", n, user, orders)
		}
	}
	for id, user := range r.orders {
		if o := b.orders[id]; o.user != user {
			c.t.Errorf("round %d: order %s of user %d is lost: %+v", n, id, user, o)
		}
	}
	late := c.sum.outcomes["paid_late"]
	c.checkMoney(n, b, paid)
	if r.Buckets > 0 {
		c.sum.late += c.sum.outcomes["paid_late"] - late
	}
	fail.Unequal(c.t, b.stock, r.stock-len(live), "round %d: units that are left, while %d orders are paid", n, len(live))
	now := *r.Sale
	now.URLs = []string{c.apis[0].URL, c.apis[1].URL}
	want := harness.Audit{InitialStock: r.stock, Stock: b.stock, Orders: len(live), Balanced: true}
	for i := range now.URLs {
		var got harness.Audit
		testkit.Until(c.t, fmt.Sprintf("round %d, process %d: the audit is %+v", n, i, want), func() bool {
			got = now.Audit(i) // the gate may be rebuilt at this moment
			return got == want
		})
	}
}

// checkMoney compares the provider's books with the orders: what it keeps has paid for a unit, each of which has been
// paid for once.
func (c *lifecycleChaos) checkMoney(n int, b bookedRound, paid map[string]bool) {
	c.t.Helper()
	kept := map[string]int{}
	for _, p := range b.payments {
		if p.Status != payment.StatusPaid {
			fail.Unequal(c.t, p.RefundedCents, 0, "round %d: %+v was refunded and not paid", n, p)
			continue
		}
		c.sum.paid++
		c.sum.cents += p.AmountCents
		var outcome string
		fail.NowIf(c.t, c.books.QueryRowContext(c.t.Context(), "SELECT outcome FROM payments WHERE payment_id = ?", p.ID).Scan(&outcome))
		c.sum.outcomes[outcome]++
		switch {
		case p.RefundedCents == 0 && len(p.Refunds) == 0:
			kept[p.Reference]++
		case p.RefundedCents == lifecyclePrice && len(p.Refunds) == 1:
			c.sum.refunded++
		default:
			c.t.Errorf("round %d: payment %s: %d cents in %d refunds", n, p.ID, p.RefundedCents, len(p.Refunds))
		}
		fail.Unequal(c.t, p.AmountCents, lifecyclePrice, "round %d: the amount of payment %s", n, p.ID)
	}
	for id, o := range b.orders {
		if want := map[bool]int{true: 1}[paid[id]]; kept[id] != want {
			c.t.Errorf("round %d: order %s is %s, and the provider keeps %d payments of it", n, id, o.status, kept[id])
		}
	}
}
