package experiments

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"seckill/internal/database"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// lifecycles are the experiments about the lifecycle of an order: it is paid, cancelled, expires or is refunded. No lock
// plays a part in them.
func lifecycles() []comparison {
	own := lab.Setup{Policy: unlocked()}
	orders := []lab.Parameter{buyers(lifecycleBuyers, 1, 20)}
	return []comparison{
		{text: "pay-and-cancel", scenario: paidWhileCancelling, needs: realServers(), cases: []setupCase{
			{id: "cancel-state-not-asked", setup: listed(flawed.StateNotAsked, own), breaks: kinds{finding.PaidForNothing, finding.ReturnedTwice}},
			{id: "cancel-conditional", setup: own, holds: kinds{finding.PaidForNothing, finding.GivenAway, finding.ReturnedTwice}},
		}, parameters: orders},
		{text: "compensation-repeated", scenario: cancelledAgain, needs: realServers(), cases: []setupCase{
			{id: "compensation-repeated", setup: listed(flawed.StateNotAsked, own), breaks: kinds{finding.ReturnedTwice}},
			{id: "compensation-once", setup: own, holds: kinds{finding.ReturnedTwice}},
		}, parameters: orders},
		{text: "event-twice", scenario: eventsComeTwice, needs: realServers(), cases: []setupCase{
			{id: "event-handled-twice", setup: listed(flawed.EventNotRecorded, own), breaks: kinds{finding.GivenAway}},
			{id: "event-recorded", setup: own, holds: kinds{finding.GivenAway, finding.PaidForNothing}},
		}, parameters: orders},
		{text: "events-out-of-order", scenario: eventsComeReversed, needs: realServers(), cases: []setupCase{
			{id: "latest-event-wins", setup: listed(flawed.LatestEventWins, own), breaks: kinds{finding.GivenAway, finding.ReturnedTwice}},
			{id: "events-in-any-order", setup: own, holds: kinds{finding.GivenAway, finding.ReturnedTwice, finding.PaidForNothing}},
		}, parameters: orders},
		{text: "expiry", scenario: expiredWhileAway, needs: realServers(), cases: []setupCase{
			{id: "expiry-by-key-message", setup: listed(flawed.KeyMessage, own), breaks: kinds{finding.NeverReturned}},
			{id: "expiry-by-query", setup: own, holds: kinds{finding.NeverReturned, finding.ReturnedTwice}},
		}, parameters: orders},
		{text: "late-money", scenario: moneyComesLate, needs: realServers(), cases: []setupCase{
			{id: "late-money-stock-not-asked", setup: listed(flawed.StockNotAsked, own), breaks: kinds{finding.Oversold}},
			{id: "late-money-conditional", setup: own, holds: kinds{finding.Oversold, finding.PaidForNothing, finding.GivenAway}},
		}, parameters: orders},
		{text: "compensation-order", scenario: gateBeforeCommit, needs: realServers(), cases: []setupCase{
			{id: "compensation-before-commit", setup: listed(flawed.GateFirst, own), breaks: kinds{finding.Oversold}},
			{id: "compensation-after-commit", setup: own, holds: kinds{finding.Oversold, finding.PaidForNothing}},
		}, parameters: []lab.Parameter{stock(lifecycleBuyers, 1, 20)}},
	}
}

// lifecycleBuyers is how many buyers there are, if the setup does not say.
const lifecycleBuyers = 3

// unlocked is the policy of a sale whose orders are placed without a lock: each of another user, one after the other.
func unlocked() voucher.Policy {
	p := voucher.DefaultPolicy()
	p.Lock = "none"
	p.Faults = []lock.Fault(nil)
	return p
}

// timeline collects what is drawn of a scenario without locks. It begins with its first moment. Its lanes appear in
// the order in which they were given; those without anything are left out.
type timeline struct {
	mu     sync.Mutex
	origin time.Time
	lanes  []finding.Lane
}

func newTimeline(lanes ...finding.Lane) *timeline { return &timeline{lanes: lanes} }

func actor(name string) finding.Lane { return finding.Lane{Name: name, Role: finding.Actor} }

// The lanes of the stores and of the provider.
const (
	laneRedis    = "Redis"
	laneMariaDB  = "MariaDB"
	laneProvider = "provider"
)

func redisLane() finding.Lane { return finding.Lane{Name: laneRedis, Role: finding.LockStore} }

// elapsed is the time on the axis. The mutex is held.
func (l *timeline) elapsed() float64 {
	if l.origin.IsZero() {
		l.origin = time.Now()
	}
	return millis(time.Since(l.origin))
}

// mark adds a moment, now, to a lane. wrong says that it should not be.
func (l *timeline) mark(lane string, kind finding.MarkKind, label i18n.Text, wrong bool) (at float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at = l.elapsed()
	one := l.lane(lane)
	one.Marks = append(one.Marks, finding.Mark{Kind: kind, At: at, Label: label, Wrong: wrong})
	return at
}

// away draws that an actor is not there, from a moment until now.
func (l *timeline) away(lane string, from float64, label i18n.Text) {
	l.mu.Lock()
	defer l.mu.Unlock()
	one := l.lane(lane)
	one.Spans = append(one.Spans, finding.Span{Kind: finding.Down, From: from, To: l.elapsed(), Who: lane, Label: label})
}

// lane is one of the lanes that newTimeline was given. The mutex is held.
func (l *timeline) lane(name string) *finding.Lane {
	i := slices.IndexFunc(l.lanes, func(one finding.Lane) bool { return one.Name == name })
	return &l.lanes[i]
}

// witness draws the proof of an anomaly, or how it was prevented: then kind is "".
func (l *timeline) witness(kind finding.Kind, summary i18n.Text) finding.Witness {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := finding.Witness{Kind: kind, Summary: summary}
	for _, one := range l.lanes {
		if len(one.Marks)+len(one.Spans) == 0 {
			continue
		}
		one.Marks = slices.SortedStableFunc(slices.Values(one.Marks), func(a, b finding.Mark) int { return cmp.Compare(a.At, b.At) })
		w.Lanes = append(w.Lanes, one)
	}
	return w
}

// moment is a time of a timeline in a sentence.
func moment(ms float64) i18n.Text { return i18n.F("%.0f ms", ms) }

// paidSale is a shop whose voucher asks for payment, and its orders.
type paidSale struct {
	*shop
	lifecycle *database.Lifecycle
	provider  *provider // nil without money
	orders    []int64
}

const (
	lifecycleCents = 8000
	// amplePay is a time to pay that no scenario reaches.
	amplePay = time.Hour
)

// newPaidSale puts a voucher with that stock on sale, in a database where nobody else looks for what is due.
func newPaidSale(t *lab.Trial, setup lab.Setup, stock int, lanes ...finding.Lane) *paidSale {
	s := &paidSale{shop: openShop(t, setup, stock, lanes...)}
	s.lifecycle = s.db.Lifecycle()
	s.sale = t.SaleWithPayment(s.db, setup.Policy, int64(stock), lifecycleCents, amplePay)
	return s
}

// newOrder is an order of a user that is to be paid within a time.
func (s *paidSale) newOrder(user int64, within time.Duration) order.Order {
	o := s.shop.newOrder(user)
	o.Status, o.PayBy, o.AmountCents = order.Unpaid, o.CreatedAt.Add(within), lifecycleCents
	return o
}

// place places an order of a user, as the service does under the locked flow.
func (s *paidSale) place(user int64, within time.Duration) (id int64) {
	o := s.newOrder(user, within)
	s.Must(s.take(o))
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
	s.Must(err)
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
	if s.program == flawed.StateNotAsked {
		s.Must(s.programs.Cancel(s.Context(), id))
		return false
	}
	_, err := s.lifecycle.Cancel(s.Context(), id)
	if errors.Is(err, order.ErrNotCancellable) {
		return true
	}
	s.Must(err)
	return false
}

// evidence is what the database and the provider have now.
func (s *paidSale) evidence() judge.Evidence {
	ev := s.shop.evidence()
	ev.Rows, ev.Books = nil, &judge.Books{}
	rows, err := s.db.RowPool().QueryContext(s.Context(), `SELECT o.id, o.status, p.pay_by <= UTC_TIMESTAMP(6)
		FROM orders o JOIN order_payments p ON p.order_id = o.id WHERE o.voucher_id = ? ORDER BY o.id`, s.sale.Voucher)
	s.Must(err)
	defer rows.Close()
	for rows.Next() {
		var o judge.BookedOrder
		s.Must(rows.Scan(&o.ID, &o.Status, &o.Overdue))
		ev.Books.Orders = append(ev.Books.Orders, o)
	}
	s.Must(rows.Err())
	if s.provider != nil {
		ev.Books.Payments = s.provider.books()
	}
	return ev
}

// finish is that of the shop, with what the orders have.
func (s *paidSale) finish(kind finding.Kind, broken, held func(found int, ev judge.Evidence) i18n.Text) {
	ev := s.evidence()
	s.Measure(i18n.F("orders that have a unit"), float64(ev.Audit.Orders), i18n.Text{})
	s.Measure(i18n.F("units on sale"), float64(ev.Audit.Stock), i18n.Text{})
	s.conclude(ev, kind, broken, held)
}
