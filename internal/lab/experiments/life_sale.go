package experiments

import (
	"context"
	"errors"
	"time"

	"seckill/internal/database"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/order"
)

// paidSale is a voucher that asks for payment, and its orders.
type paidSale struct {
	*lab.Trial
	*timeline
	setup    lab.Setup
	sale     *testbed.Sale
	db       *database.DB
	life     *database.Lifecycle
	programs flawed.Orders // those with a mistake
	provider *provider     // nil without money
	orders   []int64
}

const (
	lifeCents = 8000
	// amplePay is a time to pay that no scenario reaches.
	amplePay = time.Hour
)

// newPaidSale puts a voucher with that stock on sale, in a database where nobody else looks for what is due. The lanes
// are those of the picture.
func newPaidSale(t *lab.Trial, setup lab.Setup, stock int, lanes ...finding.Lane) *paidSale {
	db := t.OwnDB()
	return &paidSale{
		Trial: t, timeline: newTimeline(lanes...), setup: setup, db: db, life: db.Lifecycle(), programs: flawed.OpenOrders(db.RowPool()),
		sale: t.SaleWithPayment(db, setup.Policy, int64(stock), lifeCents, amplePay),
	}
}

func (s *paidSale) must(err error) {
	if err != nil {
		s.Fatalf("%w", err)
	}
}

// newOrder is an order of a user that is to be paid within a time.
func (s *paidSale) newOrder(user int64, within time.Duration) order.Order {
	now := time.Now()
	return order.Order{
		ID: s.NextID(), VoucherID: s.sale.Voucher, UserID: user, Status: order.Unpaid, CreatedAt: now,
		PayBy: now.Add(within), AmountCents: lifeCents,
	}
}

// place places an order of a user, as the service does under the locked flow.
func (s *paidSale) place(user int64, within time.Duration) (id int64) {
	o := s.newOrder(user, within)
	s.must(s.db.Orders().Transact(s.Context(), func(ctx context.Context, tx order.Tx) error {
		if err := tx.Decrement(ctx, o.VoucherID); err != nil {
			return err
		}
		return tx.Insert(ctx, o, true)
	}))
	s.orders = append(s.orders, o.ID)
	return o.ID
}

// placeAll places an order of each of n users.
func (s *paidSale) placeAll(n int) (ids []int64) {
	for range n {
		ids = append(ids, s.place(int64(len(s.orders)+1), amplePay))
	}
	return ids
}

func (s *paidSale) status(id int64) order.Status {
	o, err := s.db.Orders().Order(s.Context(), id)
	s.must(err)
	return o.Status
}

// untilAll waits until every order has a state.
func (s *paidSale) untilAll(ids []int64, status order.Status) {
	s.Until("the orders are "+string(status), func() bool {
		for _, id := range ids {
			if s.status(id) != status {
				return false
			}
		}
		return true
	})
}

// cancel cancels an order with the program of the setup, and reports whether that was refused.
func (s *paidSale) cancel(id int64) (refused bool) {
	if s.setup.Listing == flawed.StateNotAsked {
		s.must(s.programs.Cancel(s.Context(), id))
		return false
	}
	_, err := s.life.Cancel(s.Context(), id)
	if errors.Is(err, order.ErrNotCancellable) {
		return true
	}
	s.must(err)
	return false
}

// evidence is what the database and the provider have now.
func (s *paidSale) evidence() judge.Evidence {
	ev := judge.Evidence{Database: laneMariaDB, Books: &judge.Books{}}
	audit, err := s.db.Orders().Audit(s.Context(), s.sale.Voucher)
	s.must(err)
	ev.Audit = &audit
	rows, err := s.db.RowPool().QueryContext(s.Context(), `SELECT o.id, o.status, p.pay_by <= UTC_TIMESTAMP(6)
		FROM orders o JOIN order_payments p ON p.order_id = o.id WHERE o.voucher_id = ? ORDER BY o.id`, s.sale.Voucher)
	s.must(err)
	defer rows.Close()
	for rows.Next() {
		var o judge.BookedOrder
		s.must(rows.Scan(&o.ID, &o.Status, &o.Overdue))
		ev.Books.Orders = append(ev.Books.Orders, o)
	}
	s.must(rows.Err())
	if s.provider != nil {
		ev.Books.Payments = s.provider.books()
	}
	return ev
}

// finish draws the witness and judges: broken tells the anomaly, if the evidence shows that kind, and held how it was
// prevented.
func (s *paidSale) finish(kind finding.Kind, broken, held func(found int, ev judge.Evidence) i18n.Text) {
	ev := s.evidence()
	if n := judge.Judge(ev).Anomalies[kind]; n > 0 {
		s.Witness(s.witness(kind, broken(n, ev)))
	} else {
		s.Witness(s.witness("", held(n, ev)))
	}
	s.Measure(i18n.F("orders that have a voucher"), float64(ev.Audit.Orders), i18n.Text{})
	s.Measure(i18n.F("vouchers on sale"), float64(ev.Audit.Stock), i18n.Text{})
	s.Judge(ev)
}
