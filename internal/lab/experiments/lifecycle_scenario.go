package experiments

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit"
)

// The actors of these scenarios.
const (
	cancelling = "cancelling process"
	processOne = "process-1"
	processTwo = "process-2"
	webhooks   = "webhook handler"
)

// paidWhileCancelling cancels orders in a program that reads them first. Between its reading and its writing the
// buyers' money arrives.
func paidWhileCancelling(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, lifecycleBuyers)
	s := newPaidSale(t, setup, n, actor(cancelling), actor(webhooks))
	s.openProvider(sandbox.Behaviour{}, nil)
	ids := s.placeAll(n)
	for _, id := range ids {
		s.provider.pay(id)
	}
	read := s.mark(cancelling, finding.ReadsStock, i18n.F("reads: unpaid"), false)
	for _, id := range ids {
		if now := s.status(id); now != order.Unpaid {
			t.Fatalf("the order is %s before anybody has moved it", now)
		}
	}
	s.provider.release()
	s.untilAll(ids, order.Paid)
	paid := s.mark(webhooks, finding.Notes, i18n.F("the money has arrived"), false)
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("unpaid → paid"), false)
	refused := 0
	for _, id := range ids {
		if s.cancel(id) {
			refused++
		}
	}
	t.Measure(i18n.F("cancellations that were refused"), float64(refused), i18n.F("of %d", n))
	if refused == n {
		s.mark(cancelling, finding.Refuses, i18n.F("WHERE status = 'unpaid': 0 rows"), false)
	} else {
		s.mark(cancelling, finding.WritesStock, i18n.F("writes cancelled"), true)
		s.mark(laneMariaDB, finding.WritesStock, i18n.F("paid → cancelled, stock + 1"), true)
	}
	s.finish(finding.PaidForNothing, func(found int, _ judge.Evidence) i18n.Text {
		return i18n.F("The program reads at %s that the orders are unpaid. Their money arrives by %s, and they are paid. The program goes on "+
			"with what it has read: %d paid orders are cancelled, and their units are on sale. The provider keeps the money.", moment(read), moment(paid), found)
	}, func(int, judge.Evidence) i18n.Text {
		return i18n.F("The program reads at %s that the orders are unpaid. Their money arrives by %s. The statement that cancels asks for the "+
			"state once more and finds no row: all %d orders stay paid.", moment(read), moment(paid), n)
	})
}

// cancelledAgain cancels orders from a queue. The first process loses its connection to the queue when it has done
// the work and before it has said so; then the queue gives the work to the second one.
func cancelledAgain(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, lifecycleBuyers)
	s := newPaidSale(t, setup, n, actor(processOne), actor(processTwo), redisLane())
	ids := s.placeAll(n)
	const beginning = "0"
	ctx, queue := t.Context(), testbed.KeyPrefix+"lab:cancel:"+strconv.FormatInt(s.sale.Voucher, 10)
	client := t.RedisClient()
	t.Cleanup(func() { s.Must(client.Del(context.WithoutCancel(ctx), queue).Err()) })
	s.Must(client.XGroupCreateMkStream(ctx, queue, "workers", beginning).Err())
	for _, id := range ids {
		s.Must(client.XAdd(ctx, &redis.XAddArgs{Stream: queue, Values: map[string]any{"order": id}}).Err())
	}

	way := testkit.NewProxy(t, t.Redis().Addr())
	first := redis.NewClient(&redis.Options{Addr: way.Addr(), MaxRetries: -1})
	t.Cleanup(func() { _ = first.Close() })
	work, err := first.XReadGroup(ctx, &redis.XReadGroupArgs{Group: "workers", Consumer: processOne, Streams: []string{queue, ">"}, Count: int64(n)}).Result()
	s.Must(err)
	s.mark(processOne, finding.Notes, i18n.F("takes the work"), false)
	s.work(work[0].Messages)
	done := s.mark(laneMariaDB, finding.WritesStock, i18n.F("stock %d", s.evidence().Audit.Stock), false)
	way.Cut()
	t.Fault(i18n.F("process-1's connections to Redis are cut"))()
	var entries []string
	for _, m := range work[0].Messages {
		entries = append(entries, m.ID)
	}
	if err := first.XAck(ctx, queue, "workers", entries...).Err(); err == nil {
		t.Fatalf("the work was acknowledged over a connection that is cut")
	}
	cut := s.mark(processOne, finding.Refuses, i18n.F("XACK: no connection"), false)

	again, _, err := client.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: queue, Group: "workers", Consumer: processTwo, Start: beginning, Count: int64(n)}).Result()
	s.Must(err)
	s.mark(laneRedis, finding.Notes, i18n.F("gives the work out again"), false)
	twice := s.mark(processTwo, finding.Notes, i18n.F("takes the work again"), false)
	s.work(again)
	ev := s.evidence()
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("stock %d", ev.Audit.Stock), ev.Audit.Stock > int64(n))
	s.Must(client.XAck(ctx, queue, "workers", entries...).Err())
	s.finish(finding.ReturnedTwice, func(found int, ev judge.Evidence) i18n.Text {
		return i18n.F("Process-1 has cancelled %d orders by %s, and cannot say so: without a connection its acknowledgement fails at %s. The queue gives the same work to "+
			"process-2 at %s, and process-2 cancels the orders again. Of %d units %d are on sale: %d were returned twice.",
			n, moment(done), moment(cut), moment(twice), n, ev.Audit.Stock, found)
	}, func(int, judge.Evidence) i18n.Text {
		return i18n.F("Process-1 has cancelled %d orders by %s, and cannot say so. Process-2 does the same work again at %s: no order is unpaid any "+
			"more, so nothing is returned, and the stock stays %d.", n, moment(done), moment(twice), n)
	})
}

// work cancels the orders of a queue's entries.
func (s *paidSale) work(entries []redis.XMessage) {
	if len(entries) != len(s.orders) {
		s.Fatalf("the queue has %d entries, want %d", len(entries), len(s.orders))
	}
	for _, e := range entries {
		id, err := strconv.ParseInt(fmt.Sprint(e.Values["order"]), 10, 64)
		s.Must(err)
		s.cancel(id)
	}
}

// eventsComeTwice has the provider deliver each event twice, as one that has not seen the first answer does.
func eventsComeTwice(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, lifecycleBuyers)
	s := newPaidSale(t, setup, n, actor(webhooks), actor(laneProvider))
	var handle func(context.Context, payment.Event) error
	if setup.Program == flawed.EventNotRecorded {
		handle = func(ctx context.Context, e payment.Event) error {
			if e.Type != payment.EventPaid {
				return nil
			}
			refund, err := s.programs.Paid(ctx, e.Data)
			if err != nil || !refund {
				return err
			}
			s.mark(webhooks, finding.Notes, i18n.F("the order is paid: refunds a second payment"), true)
			err = s.provider.refund(ctx, e.Data.ID)
			s.mark(laneProvider, finding.Notes, i18n.F("gives the money back"), true)
			return err
		}
	}
	s.openProvider(sandbox.Behaviour{Duplicate: 1}, handle)
	ids := s.placeAll(n)
	for _, id := range ids {
		s.provider.pay(id)
	}
	s.mark(laneProvider, finding.Notes, i18n.F("sends each event twice"), false)
	s.provider.release()
	s.untilAll(ids, order.Paid)
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("unpaid → paid"), false)
	s.provider.untilHandled(payment.EventPaid, 2*n)
	s.mark(webhooks, finding.Notes, i18n.F("has taken all of them"), false)
	s.finish(finding.GivenAway, func(found int, _ judge.Evidence) i18n.Text {
		return i18n.F("%d buyers pay, and each event comes twice. The first delivery marks the order as paid. The second delivery finds a paid "+
			"order and is taken for a second payment, whose money goes back: %d buyers have a unit and their money.", n, found)
	}, func(int, judge.Evidence) i18n.Text {
		return i18n.F("%d buyers pay, and each event comes twice. The first delivery records the payment under its id and marks the order as "+
			"paid. The second delivery finds the payment recorded, and changes nothing.", n)
	})
}

// eventsComeReversed has the provider refund what was paid, and deliver its events in reverse order.
func eventsComeReversed(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, lifecycleBuyers)
	s := newPaidSale(t, setup, n, actor(laneProvider), actor(webhooks))
	var handle func(context.Context, payment.Event) error
	if setup.Program == flawed.LatestEventWins {
		handle = func(ctx context.Context, e payment.Event) error {
			id, err := strconv.ParseInt(e.Data.Reference, 10, 64)
			if err != nil {
				return err
			}
			return s.programs.Event(ctx, e.Type, id)
		}
	}
	s.openProvider(sandbox.Behaviour{ReorderMS: 1}, handle)
	ids := s.placeAll(n)
	for _, id := range ids {
		one := s.provider.pay(id)
		s.Must(s.provider.refund(t.Context(), one))
	}
	s.mark(laneProvider, finding.Notes, i18n.F("was paid, and has given back"), false)
	s.provider.release()
	s.provider.untilHandled(payment.EventRefunded, n)
	refunded := s.mark(webhooks, finding.Notes, i18n.F("has taken all refunds"), false)
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("→ refunded, stock + 1"), false)
	s.provider.untilHandled(payment.EventPaid, n)
	paid := s.mark(webhooks, finding.Notes, i18n.F("has taken all payments"), false)
	now := s.status(ids[0])
	s.mark(laneMariaDB, finding.WritesStock, isNow(now), now == order.Paid)
	s.finish(finding.GivenAway, func(found int, ev judge.Evidence) i18n.Text {
		return i18n.F("The provider has received the money of %d orders and given it back. The refunds are taken by %s, the payments by %s, and the "+
			"event that comes last decides: %d orders are paid without money, while %d of %d units are on sale.", n, moment(refunded), moment(paid), found, ev.Audit.Stock, n)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("The provider has received the money of %d orders and given it back. The refunds are taken by %s: each one also proves that "+
			"the money had been paid, and the order goes from unpaid over paid to refunded. The payment events, taken by %s, change nothing, "+
			"since the payments are recorded already: %d units are on sale.",
			n, moment(refunded), moment(paid), ev.Audit.Stock)
	})
}

// moneyComesLate has buyers pay whose events come late: their orders are cancelled by then, and the units are
// ordered by others.
func moneyComesLate(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, lifecycleBuyers)
	const early, later = "first buyers", "second buyers"
	s := newPaidSale(t, setup, n, actor(early), actor(later), actor(webhooks))
	var handle func(context.Context, payment.Event) error
	if setup.Program == flawed.StockNotAsked {
		handle = s.settleLate
	}
	s.openProvider(sandbox.Behaviour{}, handle)
	first := s.placeAll(n)
	for _, id := range first {
		s.provider.pay(id)
	}
	s.mark(early, finding.Notes, i18n.F("pay; the events are on their way"), false)
	for _, id := range first {
		s.cancel(id)
	}
	s.mark(early, finding.Notes, i18n.F("cancel"), false)
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("stock %d", n), false)
	second := s.placeAll(n)
	for _, id := range second {
		s.provider.pay(id)
	}
	bought := s.mark(later, finding.Notes, i18n.F("order the units and pay"), false)
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("stock 0"), false)
	s.provider.release()
	s.provider.untilHandled(payment.EventPaid, 2*n)
	late := s.mark(webhooks, finding.Notes, i18n.F("all money has arrived"), false)
	if setup.Program == "" {
		s.provider.untilHandled(payment.EventRefunded, n)
		s.mark(webhooks, finding.Notes, i18n.F("late money has gone back"), false)
	}
	ev := s.evidence()
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("%d orders paid", ev.Audit.Orders), ev.Audit.Oversold() > 0)
	s.finish(finding.Oversold, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("By %s other buyers have ordered all %d units. The money for the %d cancelled orders arrives by %s, and they are marked as paid, too: %d paid orders "+
			"for %d units.", moment(bought), n, n, moment(late), ev.Audit.Orders, n)
	}, func(int, judge.Evidence) i18n.Text {
		return i18n.F("By %s other buyers have ordered all %d units. The money for the %d cancelled orders arrives by %s, finds no stock, and goes back.",
			moment(bought), n, n, moment(late))
	})
}

// settleLate pays an order, also one that has given its unit back.
func (s *paidSale) settleLate(ctx context.Context, e payment.Event) error {
	id, err := strconv.ParseInt(e.Data.Reference, 10, 64)
	if err != nil || e.Type != payment.EventPaid {
		return err
	}
	o, err := s.db.Orders().Order(ctx, id)
	if err != nil {
		return err
	}
	if o.Status == order.Cancelled {
		return s.programs.PaidLate(ctx, id)
	}
	_, err = s.lifecycle.MarkPaid(ctx, order.Receipt{PaymentID: e.Data.ID, OrderID: id, AmountCents: e.Data.AmountCents, At: *e.Data.PaidAt})
	return err
}

// takeFromGate takes a unit from the stock in Redis, if there is one.
var takeFromGate = redis.NewScript(`if tonumber(redis.call('GET', KEYS[1])) > 0 then redis.call('DECR', KEYS[1]) return 1 end return 0`)

// gateBeforeCommit sells what a counter in Redis accepts. A buyer cancels while the buyer's money arrives.
func gateBeforeCommit(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Stock, lifecycleBuyers)
	const next = "next buyer"
	s := newPaidSale(t, setup, n, actor(cancelling), actor(webhooks), actor(next), redisLane())
	s.openProvider(sandbox.Behaviour{}, nil)
	ctx, client, gate := t.Context(), t.RedisClient(), testbed.KeyPrefix+"lab:gate:"+strconv.FormatInt(s.sale.Voucher, 10)
	t.Cleanup(func() { s.Must(client.Del(context.WithoutCancel(ctx), gate).Err()) })
	s.Must(client.Set(ctx, gate, n, 0).Err())
	buy := func(user int) (accepted bool) {
		took, err := takeFromGate.Run(ctx, client, []string{gate}).Int()
		s.Must(err)
		if took == 0 {
			return false
		}
		o := s.newOrder(int64(user), amplePay)
		s.Must(s.programs.Accept(ctx, o))
		s.orders = append(s.orders, o.ID)
		return true
	}
	for user := range n {
		if !buy(user + 1) {
			t.Fatalf("buyer %d of %d was refused", user+1, n)
		}
	}
	giveBack := func() { s.Must(client.Incr(ctx, gate).Err()) }
	s.mark(laneRedis, finding.Notes, i18n.F("stock 0"), false)

	first := s.orders[0]
	s.provider.pay(first)
	if setup.Program == flawed.GateFirst {
		giveBack()
		s.mark(cancelling, finding.Notes, i18n.F("gives back in Redis"), true)
		s.mark(laneRedis, finding.Notes, i18n.F("stock 1"), true)
	}
	s.provider.release()
	s.untilAll([]int64{first}, order.Paid)
	paid := s.mark(webhooks, finding.Notes, i18n.F("the money has arrived"), false)
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("unpaid → paid"), false)
	_, err := s.lifecycle.Cancel(ctx, first)
	switch {
	case err == nil && setup.Program == "":
		giveBack()
	case !errors.Is(err, order.ErrNotCancellable):
		s.Must(err)
	}
	s.mark(cancelling, finding.Refuses, i18n.F("WHERE status = 'unpaid': 0 rows, rolled back"), false)
	if buy(n + 1) {
		s.mark(next, finding.Notes, i18n.F("is accepted"), true)
		s.mark(laneMariaDB, finding.WritesStock, i18n.F("one more order"), true)
	} else {
		s.mark(next, finding.Refuses, i18n.F("is told: sold out"), false)
	}
	s.finish(finding.Oversold, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Buyer 1 cancels, and the unit is back in Redis. Buyer 1's money arrives at %s, before the transaction that cancels, which "+
			"then finds no unpaid order and rolls back. Redis is not told of that, and accepts one more: %d orders for %d units.",
			moment(paid), ev.Audit.Orders, n)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("Buyer 1's money arrives at %s, before the transaction that cancels, which then finds no unpaid order. So Redis is given "+
			"nothing, and the next buyer is told that all is sold: %d orders for %d units.", moment(paid), ev.Audit.Orders, n)
	})
}

// isNow says the state of an order that was paid and refunded.
func isNow(now order.Status) i18n.Text {
	switch now {
	case order.Paid:
		return i18n.F("is paid")
	case order.Refunded:
		return i18n.F("is refunded")
	}
	return i18n.F("is %s", string(now))
}
