package experiments

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"seckill/internal/database"
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// stocks are the experiments about how one is taken from the stock. Most of the mistakes were reported for real programs.
func stocks() []comparison {
	own, inRedis := lab.Setup{Policy: unlocked()}, []testbed.Server{testbed.Redis}
	return []comparison{
		{text: "version-rush", scenario: fewAtATime, cases: []setupCase{
			{id: "version-rush", setup: rushing(voucher.StockVersion), breaks: kinds{finding.Undersold}},
			{id: "conditional-rush", setup: rushing(voucher.StockConditional), holds: kinds{finding.Undersold, finding.Oversold, finding.LostOrders}},
			{id: "version-rush-retried", setup: retrying(rushing(voucher.StockVersion)), holds: kinds{finding.Undersold, finding.Oversold, finding.LostOrders}},
		}, parameters: []lab.Parameter{
			stockModes(voucher.StockVersion, voucher.StockConditional), workInside(time.Second), buyers(rushStock, 20, 300), retries(300),
		}},
		{text: "counted-stock", scenario: lastUnitForTwo, cases: []setupCase{
			{id: "count-then-insert", setup: listed(flawed.CountThenInsert, own), breaks: kinds{finding.Oversold}},
			{id: "count-for-each-line", setup: listed(flawed.CountThenInsert, own), breaks: kinds{finding.Oversold}, scenario: twoLines, partner: "take-for-each-line"},
			{id: "take-then-insert", setup: own, holds: kinds{finding.Oversold}},
			{id: "take-for-each-line", setup: own, holds: kinds{finding.Oversold}, scenario: twoLines, partner: "count-for-each-line"},
		}, parameters: []lab.Parameter{stock(lastOf, 1, 50)}},
		{text: "stock-before-user", scenario: oneUserAndOthers, needs: inRedis, cases: []setupCase{
			{id: "stock-before-user", setup: listed(flawed.StockBeforeUser, own), breaks: kinds{finding.Undersold}},
			{id: "user-in-database", setup: listed(flawed.UserInDatabase, own), breaks: kinds{finding.Undersold}},
			{id: "user-and-stock-at-once", setup: own, holds: kinds{finding.Undersold, finding.Oversold, finding.DuplicateOrders}},
		}, parameters: []lab.Parameter{stock(gateStock, 2, 50)}},
		{text: "message-apart", scenario: cutBeforeMessage, needs: inRedis, cases: []setupCase{
			{id: "message-apart", setup: listed(flawed.MessageApart, own), breaks: kinds{finding.LostOrders, finding.LostStock}},
			{id: "message-in-script", setup: own, holds: kinds{finding.LostOrders, finding.LostStock, finding.Oversold}},
		}, parameters: []lab.Parameter{stock(lifecycleBuyers, 1, 20)}},
		{text: "skip-locked", scenario: lastUnitsInHand, needs: []testbed.Server{testbed.Database}, cases: []setupCase{
			{id: "locked-is-sold", setup: listed(flawed.LockedIsSold, withStock(voucher.StockUnits, own)), breaks: kinds{finding.Undersold}},
			{id: "locked-is-waited-for", setup: withStock(voucher.StockUnits, own), holds: kinds{finding.Undersold, finding.Oversold}},
		}, parameters: []lab.Parameter{stock(lifecycleBuyers, 1, 6)}},
		{text: "stranded-stock", scenario: crowdAtCounters, cases: []setupCase{
			{id: "stranded-stock", setup: listed(flawed.OwnCounter, withStock(voucher.StockRows, own)), breaks: kinds{finding.Undersold}},
			{id: "all-counters", setup: withStock(voucher.StockRows, own), holds: kinds{finding.Undersold, finding.Oversold}},
		}, parameters: []lab.Parameter{stock(counterStock, 16, 64)}},
		{text: "group-of-orders", scenario: twoGroups, cases: []setupCase{
			{id: "one-for-all", setup: listed(flawed.OneForAll, withStock(voucher.StockGrouped, own)), breaks: kinds{finding.Undersold}},
			{id: "each-its-own", setup: withStock(voucher.StockGrouped, own), holds: kinds{finding.Undersold, finding.Oversold, finding.DuplicateOrders}},
		}, parameters: []lab.Parameter{stock(groupStock, 4, 100)}},
		{text: "stock-written", scenario: refilledWhileSelling, cases: []setupCase{
			{id: "stock-written", setup: listed(flawed.StockWritten, own), breaks: kinds{finding.Oversold}},
			{id: "stock-added", setup: own, holds: kinds{finding.Oversold}},
		}, parameters: []lab.Parameter{stock(refillStock, 2, 50)}},
		{text: "paused-in-redis", scenario: pausedAndRestarted, needs: inRedis, cases: []setupCase{
			{id: "paused-in-redis", setup: listed(flawed.PausedInRedis, own), breaks: kinds{finding.SoldWhilePaused}},
			{id: "paused-in-database", setup: own, holds: kinds{finding.SoldWhilePaused, finding.Oversold}},
		}, parameters: []lab.Parameter{stock(refillStock, 2, 50)}},
	}
}

const (
	// rushStock units are on sale, one for each buyer. rushAtOnce buyers order at the same time.
	rushStock, rushAtOnce = 100, 8
	rushWork              = 10 * time.Millisecond
	// lastOf is the stock of which one unit is left.
	lastOf = 10
	// gateStock is on sale at a gate in Redis.
	gateStock = 10
	// counterStock is on sale in sixteen counters.
	counterStock = 32
	// groupStock is on sale to groups.
	groupStock = 10
	// refillStock is on sale when an administrator changes the sale.
	refillStock = 10
)

// rushing sells without a lock.
func rushing(strategy voucher.Stock) lab.Setup {
	p := openPolicy("none", pauseAt(lock.CriticalSection, rushWork))
	p.Stock = strategy
	return lab.Setup{Policy: p}
}

// shop is a voucher in a database of its own, which programs sell.
type shop struct {
	*lab.Trial
	*timeline
	program  flawed.Name
	sale     *testbed.Sale
	db       *database.DB
	programs flawed.Orders // those with a mistake
	engine   string        // the name of the database, and of its lane
	stock    int
	acks     []judge.Ack
	refused  []int64 // nil: nobody looks for them
}

// newShop puts a voucher with that stock on sale. The database's lane is the last one of the picture.
func newShop(t *lab.Trial, setup lab.Setup, stock int, lanes ...finding.Lane) *shop {
	s := openShop(t, setup, stock, lanes...)
	s.sale = t.SaleIn(s.db, setup.Policy, int64(stock))
	return s
}

// openShop is newShop without a sale.
func openShop(t *lab.Trial, setup lab.Setup, stock int, lanes ...finding.Lane) *shop {
	db, engine := t.AnyDB(), laneMariaDB
	if db.Engine() == "sqlite" {
		engine = "SQLite"
	}
	return &shop{
		Trial: t, timeline: newTimeline(append(lanes, finding.Lane{Name: engine, Role: finding.Database})...), program: setup.Program,
		db: db, programs: flawed.OpenOrders(db.Pools()["readers"]), engine: engine, stock: stock,
	}
}

func (s *shop) newOrder(user int64) order.Order {
	return order.Order{ID: s.NextID(), VoucherID: s.sale.Voucher, UserID: user, Status: order.Confirmed, CreatedAt: time.Now()}
}

// take takes a unit for each order in a transaction that inserts it, as the service does under the locked flow, or none.
func (s *shop) take(orders ...order.Order) error {
	return s.db.Orders().Transact(s.Context(), func(ctx context.Context, tx order.Tx) error {
		for _, o := range orders {
			if err := s.decrement(ctx, tx, o); err != nil {
				return err
			}
			if err := tx.Insert(ctx, o, true); err != nil {
				return err
			}
		}
		return nil
	})
}

// decrement takes a unit as the policy says.
func (s *shop) decrement(ctx context.Context, tx order.Tx, o order.Order) error {
	switch s.sale.Policy.Stock {
	case voucher.StockRows:
		return tx.DecrementRow(ctx, o.VoucherID, s.firstPart(o.UserID))
	case voucher.StockUnits:
		return tx.TakeUnit(ctx, o.VoucherID, s.firstPart(o.UserID))
	}
	return tx.Decrement(ctx, o.VoucherID)
}

// firstPart is the part of the stock from which a user buys first.
func (s *shop) firstPart(user int64) int64 {
	v := voucher.Voucher{InitialStock: int64(s.stock), Policy: s.sale.Policy}
	return v.FirstPart(user)
}

// place places orders of users with the program of the setup, which has looked at the stock before. It draws what the
// database does, and reports false if they are refused.
func (s *shop) place(users ...int64) (placed bool) {
	var orders []order.Order
	for _, user := range users {
		orders = append(orders, s.newOrder(user))
	}
	if s.program == flawed.CountThenInsert {
		s.Must(s.programs.Append(s.Context(), orders...))
	} else if err := s.take(orders...); errors.Is(err, voucher.ErrSoldOut) {
		return false
	} else {
		s.Must(err)
	}
	return true
}

// left looks at the stock.
func (s *shop) left() int {
	if s.program == flawed.CountThenInsert {
		n, err := s.programs.Left(s.Context(), s.sale.Voucher)
		s.Must(err)
		return n
	}
	return int(s.evidence().Audit.Stock)
}

// evidence is what the database holds, and what buyers were told.
func (s *shop) evidence() judge.Evidence {
	ev := s.sale.Evidence()
	ev.Acks, ev.Refused = s.acks, s.refused
	return ev
}

// apart is the time between two steps, so that they are apart in the picture.
const apart = 20 * time.Millisecond

// step is [timeline.mark] after a while.
func (s *shop) step(lane string, kind finding.MarkKind, label i18n.Text, wrong bool) (at float64) {
	s.Sleep(apart)
	return s.mark(lane, kind, label, wrong)
}

// finish draws the witness and judges: broken tells the anomaly, if the evidence shows that kind, and held how it was
// prevented.
func (s *shop) finish(kind finding.Kind, broken, held func(found int, ev judge.Evidence) i18n.Text) {
	s.conclude(s.evidence(), kind, broken, held)
}

func (s *shop) conclude(ev judge.Evidence, kind finding.Kind, broken, held func(found int, ev judge.Evidence) i18n.Text) {
	if n := judge.Judge(ev).Anomalies[kind]; n > 0 {
		s.Witness(s.witness(kind, broken(n, ev)))
	} else {
		s.Witness(s.witness("", held(n, ev)))
	}
	s.Judge(ev)
}

// ordersOf draws how many orders there are.
func (s *shop) ordersOf() {
	n := int(s.evidence().Audit.Orders)
	s.mark(s.engine, finding.WritesStock, i18n.F("order %d of %d", n, s.stock), n > s.stock)
}

// sellAllButOne sells to others, so that one unit is left.
func (s *shop) sellAllButOne() {
	for i := range s.stock - 1 {
		s.Must(s.take(s.newOrder(int64(101 + i))))
	}
}

// lastUnitForTwo has two buyers look at the last unit before either orders it.
func lastUnitForTwo(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, lastOf)
	s := newShop(t, setup, n, actor(firstBuyer), actor(secondBuyer))
	s.sellAllButOne()
	var looked []float64
	for _, who := range []string{firstBuyer, secondBuyer} {
		looked = append(looked, s.step(who, finding.ReadsStock, i18n.F("sees %d left", s.left()), false))
	}
	for i, who := range []string{firstBuyer, secondBuyer} {
		if !s.place(int64(i + 1)) {
			s.step(who, finding.Refuses, i18n.F("WHERE stock > 0: 0 rows"), false)
			continue
		}
		s.step(who, finding.Notes, i18n.F("orders"), i > 0)
		s.ordersOf()
	}
	s.finish(finding.Oversold, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Buyer 1 counts the orders at %s, and buyer 2 at %s: %d of %d units are sold. Both insert an order for the one that is left: %d orders for %d units.",
			moment(looked[0]), moment(looked[1]), n-1, n, ev.Audit.Orders, n)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Buyer 1 looks at the stock at %s, and buyer 2 at %s: 1 of %d units is left. Buyer 1 takes it. The statement of buyer 2 "+
			"finds that the stock is not above 0: %d orders for %d units.", moment(looked[0]), moment(looked[1]), n, ev.Audit.Orders, n)
	})
}

// twoLines has a buyer check out a cart with two lines, each of which asks for the last unit.
func twoLines(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, lastOf)
	const one, two = "line 1", "line 2"
	s := newShop(t, setup, n, actor(one), actor(two))
	s.sellAllButOne()
	for _, line := range []string{one, two} {
		s.step(line, finding.ReadsStock, i18n.F("sees %d left", s.left()), false)
	}
	var checked float64
	if s.place(1, 2) {
		checked = s.step(one, finding.Notes, i18n.F("orders"), false)
		s.mark(two, finding.Notes, i18n.F("orders"), true)
		s.ordersOf()
	} else {
		checked = s.step(two, finding.Refuses, i18n.F("WHERE stock > 0: 0 rows"), false)
		s.mark(s.engine, finding.Refuses, i18n.F("rolls both back"), false)
	}
	s.finish(finding.Oversold, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Each line of the cart is checked by itself, and each finds the one unit that is left. At %s both are inserted: %d orders for %d units, "+
			"with no other buyer there.", moment(checked), ev.Audit.Orders, n)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Line 1 takes the unit that is left. Line 2, in the same transaction, finds that the stock is not above 0 at %s, and both are rolled back: "+
			"%d orders for %d units.", moment(checked), ev.Audit.Orders, n)
	})
}

// hasOrder reports whether the database has an order of a user.
func (s *shop) hasOrder(user int64) bool {
	return slices.ContainsFunc(s.evidence().Rows, func(o order.Order) bool { return o.UserID == user })
}
