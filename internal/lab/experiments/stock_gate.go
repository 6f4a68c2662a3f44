package experiments

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// gateShop is a shop whose stock is in Redis. A worker writes to the database what Redis has accepted.
type gateShop struct {
	*shop
	gate flawed.Gate
	name string
}

// newGateShop is newShop with a gate in a Redis.
func newGateShop(t *lab.Trial, setup lab.Setup, stock int, client *redis.Client, lanes ...finding.Lane) *gateShop {
	s := &gateShop{shop: newShop(t, setup, stock, append(lanes, redisLane())...)}
	s.refused = []int64{}
	s.name = testbed.KeyPrefix + "lab:gate:" + strconv.FormatInt(s.sale.Voucher, 10)
	s.gate = flawed.OpenGate(client, s.name)
	t.Cleanup(func() { s.Must(s.gate.Close(context.WithoutCancel(t.Context()))) })
	s.Must(s.gate.Open(t.Context(), stock))
	return s
}

// ask orders for a user with the program of the setup. It returns nil, [voucher.ErrSoldOut] or [order.ErrAlreadyOrdered].
func (s *gateShop) ask(user int64) error {
	ctx, o := s.Context(), s.newOrder(user)
	if s.program == "" {
		_, err := s.gate.Accept(ctx, o, true)
		return err
	}
	if s.program == flawed.UserInDatabase && s.hasOrder(user) {
		return order.ErrAlreadyOrdered
	}
	if err := s.gate.Take(ctx); err != nil {
		return err
	}
	if s.program == flawed.StockBeforeUser && s.hasOrder(user) {
		return order.ErrAlreadyOrdered
	}
	return s.gate.Send(ctx, o)
}

// askAs has users order one after the other, and counts who was accepted and who was told that all is sold.
func (s *gateShop) askAs(users ...int64) (accepted, soldOut int) {
	for _, user := range users {
		switch err := s.ask(user); {
		case errors.Is(err, order.ErrAlreadyOrdered): // and there is nothing to count
		case errors.Is(err, voucher.ErrSoldOut):
			soldOut++
			s.refused = append(s.refused, user)
		default:
			s.Must(err)
			accepted++
		}
	}
	return accepted, soldOut
}

// work writes what was accepted. The unique index refuses a user's second order.
func (s *gateShop) work() (written int) {
	s.Must(s.gate.Work(s.Context(), func(user, id int64) error {
		o := s.newOrder(user)
		o.ID = id
		switch err := s.take(o); {
		case errors.Is(err, order.ErrAlreadyOrdered):
			return nil
		case err != nil:
			return err
		}
		written++
		return nil
	}))
	return written
}

// inRedis draws the stock in Redis, which should be least or more.
func (s *gateShop) inRedis(least int) (left int) {
	left, err := s.gate.Left(s.Context())
	s.Must(err)
	left = max(0, left) // a DECR that finds nothing leaves less than nothing
	s.mark(laneRedis, finding.Notes, i18n.F("stock %d", left), left < least)
	return left
}

// oneUserAndOthers has a user order again and again, some times before the first order is in the database and some times
// after, and then as many others as there are units left for.
func oneUserAndOthers(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, gateStock)
	const worker, others = "worker", "the others"
	s := newGateShop(t, setup, n, t.RedisClient(), actor(firstBuyer), actor(worker), actor(others))
	clicks := make([]int64, n/2+1)
	for i := range clicks {
		clicks[i] = 1
	}
	write := func() {
		s.step(worker, finding.Notes, i18n.F("orders written: %d", s.work()), false)
		s.mark(s.engine, finding.WritesStock, i18n.F("stock %d", s.evidence().Audit.Stock), false)
	}
	s.askAs(clicks...)
	s.step(firstBuyer, finding.Notes, i18n.F("orders %d times", len(clicks)), false)
	left := s.inRedis(n - 1)
	write()
	s.askAs(clicks...)
	s.step(firstBuyer, finding.Notes, i18n.F("orders %d times more", len(clicks)), false)
	left = s.inRedis(left)
	rest := make([]int64, n-1)
	for i := range rest {
		rest[i] = int64(2 + i)
	}
	accepted, soldOut := s.askAs(rest...)
	if soldOut > 0 {
		s.step(others, finding.Refuses, i18n.F("%d are told: sold out", soldOut), true)
	} else {
		s.step(others, finding.Notes, i18n.F("%d are accepted", accepted), false)
	}
	s.inRedis(0)
	write()
	s.finish(finding.Undersold, func(found int, ev judge.Evidence) i18n.Text {
		return i18n.F("Buyer 1 can have one unit and orders again and again, and Redis has %d of %d left. Of %d others %d are told that all is sold. "+
			"Orders in the database: %d; units that nobody can buy: %d.", left, n, n-1, soldOut, ev.Audit.Orders, found)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Buyer 1 can have one unit and orders again and again, and Redis still has %d of %d left: one for each of the %d others. Orders in the database: %d.",
			left, n, n-1, ev.Audit.Orders)
	})
}

// cutBeforeMessage cuts a process off from Redis when its script has taken a unit. The buyer asks another process.
func cutBeforeMessage(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, lifecycleBuyers)
	const worker = "worker"
	s := newGateShop(t, setup, n, t.RedisClient(), actor(firstBuyer), actor(processOne), actor(processTwo), actor(worker))
	send := setup.Program != flawed.MessageApart
	way := testkit.NewProxy(t, t.Redis().Addr())
	client := redis.NewClient(&redis.Options{Addr: way.Addr(), MaxRetries: -1, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	first, mine := flawed.OpenGate(client, s.name), s.newOrder(1)

	s.step(firstBuyer, finding.Notes, i18n.F("orders"), false)
	_, err := first.Accept(t.Context(), mine, send)
	s.Must(err)
	s.step(processOne, finding.Notes, i18n.F("takes a unit"), false)
	s.inRedis(0)
	way.Cut()
	if err = client.Ping(t.Context()).Err(); !send {
		err = first.Send(t.Context(), mine)
	}
	if err == nil {
		t.Fatalf("Redis has answered over a connection that is cut")
	}
	cut := s.step(processOne, finding.Refuses, i18n.F("no connection"), !send)

	again := s.newOrder(1)
	has, err := s.gate.Accept(t.Context(), again, send)
	if !errors.Is(err, order.ErrAlreadyOrdered) || has != mine.ID {
		t.Fatalf("buyer 1 asks again and has order %d, not %d: %w", has, mine.ID, err)
	}
	s.acks = append(s.acks, judge.Ack{Order: has, User: 1})
	told := s.step(firstBuyer, finding.Notes, i18n.F("asks again: you have an order"), !send)
	for user := int64(2); user <= int64(n); user++ {
		o := s.newOrder(user)
		id, err := s.gate.Accept(t.Context(), o, send)
		s.Must(err)
		if !send {
			s.Must(s.gate.Send(t.Context(), o))
		}
		s.acks = append(s.acks, judge.Ack{Order: id, User: user})
	}
	s.step(processTwo, finding.Notes, i18n.F("sells the others"), false)
	left := s.inRedis(0)
	s.step(worker, finding.Notes, i18n.F("orders written: %d", s.work()), false)
	ev := s.evidence()
	s.mark(s.engine, finding.WritesStock, i18n.F("orders: %d of %d", ev.Audit.Orders, n), ev.Audit.Orders < int64(n))
	t.Found(finding.LostStock, max(0, n-left-int(ev.Audit.Orders)))
	s.finish(finding.LostOrders, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Process-1 takes a unit for buyer 1 in Redis, and is cut off before it can send the order, at %s. Buyer 1 asks process-2 and is told at %s: "+
			"you have an order already. Nobody has it: Redis has %d units left, and the database has %d orders of %d.",
			moment(cut), moment(told), left, ev.Audit.Orders, n)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Process-1's script takes a unit for buyer 1 and sends the order. Then it is cut off, at %s. Buyer 1 asks process-2 and is told at %s: "+
			"you have an order already. The worker writes it: %d orders of %d.", moment(cut), moment(told), ev.Audit.Orders, n)
	})
}
