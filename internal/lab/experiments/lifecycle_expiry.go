package experiments

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
)

const (
	// shortPay is the time to pay in a scenario that waits until it is over.
	shortPay = 200 * time.Millisecond
	// keyMessages is where Redis publishes the keys that expire.
	keyMessages = "__keyevent@0__:expired"
	// duePoll is how often the database is asked for orders that are due.
	duePoll = 50 * time.Millisecond
	expirer = "expiring process"
)

// expiredWhileAway lets the time to pay run out for orders while the process that expires them is there, while it is
// away, and when it is back.
func expiredWhileAway(t *lab.Trial, setup lab.Setup) {
	n := cmp.Or(setup.Buyers, lifecycleBuyers)
	s := newPaidSale(t, setup, n+2, actor(expirer), redisLane())
	keys := t.OwnRedis("--notify-keyspace-events", "Ex").Client(t)
	expire := s.listenForKeys
	if setup.Program == "" {
		expire = func(*redis.Client) (stop func()) { return s.pollForDue() }
	}
	placeShort := func() (id int64) {
		id = s.place(int64(len(s.orders)+1), shortPay)
		s.Must(keys.Set(t.Context(), keyOfOrder(id), 1, shortPay).Err())
		return id
	}
	expires := func(id int64) { s.untilAll([]int64{id}, order.Expired) }

	stop := expire(keys)
	expires(placeShort())
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("the first order: expired"), false)
	stop()
	gone := s.mark(expirer, finding.Notes, i18n.F("goes"), false)
	var missed []int64
	for range n {
		missed = append(missed, placeShort())
	}
	t.Until("the time to pay is over", func() bool {
		left := 0
		for _, id := range missed {
			left += int(keys.Exists(t.Context(), keyOfOrder(id)).Val())
		}
		return left == 0 && s.overdue() == n
	})
	over := s.mark(laneRedis, finding.Deletes, i18n.F("%d keys expire, nobody listens", n), setup.Program == flawed.KeyMessage)
	s.away(expirer, gone, i18n.F("away"))
	stop = expire(keys)
	back := s.mark(expirer, finding.Notes, i18n.F("is back"), false)
	expires(placeShort()) // what expires from now on is seen
	s.mark(laneMariaDB, finding.WritesStock, i18n.F("the last order: expired"), false)
	stop()
	s.finish(finding.NeverReturned, func(found int, _ judge.Evidence) i18n.Text {
		return i18n.F("The keys of %d orders expire by %s, while the process is away. It is back at %s, and expires the next order. Redis does not "+
			"repeat a message: %d orders stay unpaid, and nobody can have their units.", n, moment(over), moment(back), found)
	}, func(_ int, ev judge.Evidence) i18n.Text {
		return i18n.F("The time to pay of %d orders is over by %s, while the process is away. It is back at %s, and its first look finds them: "+
			"all %d units are on sale.", n, moment(over), moment(back), ev.Audit.Stock)
	})
}

func keyOfOrder(id int64) string { return "order:" + strconv.FormatInt(id, 10) }

// overdue counts the unpaid orders whose time to pay is over.
func (s *paidSale) overdue() (n int) {
	for _, o := range s.evidence().Books.Orders {
		if o.Status == order.Unpaid && o.Overdue {
			n++
		}
	}
	return n
}

// listenForKeys expires the orders whose keys expire, from now on until stop.
func (s *paidSale) listenForKeys(client *redis.Client) (stop func()) {
	listening := client.Subscribe(s.Context(), keyMessages)
	if _, err := listening.Receive(s.Context()); err != nil { // from here on messages come
		s.Fatalf("subscribe: %w", err)
	}
	messages := listening.Channel()
	done := s.Go(func() {
		for m := range messages {
			if id, err := strconv.ParseInt(strings.TrimPrefix(m.Payload, "order:"), 10, 64); err == nil {
				s.Must(s.programs.Expire(s.Context(), id))
			}
		}
	})
	s.Cleanup(func() { _ = listening.Close() })
	return func() {
		s.Must(listening.Close())
		done()
	}
}

// pollForDue asks the database for orders that are due, from now on until stop, as every process of the project does.
func (s *paidSale) pollForDue() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	done := s.Go(func() {
		for ctx.Err() == nil {
			if _, err := s.lifecycle.ExpireDue(ctx, 100); err != nil && ctx.Err() == nil {
				s.Must(err)
			}
			select {
			case <-time.After(duePoll):
			case <-ctx.Done():
			}
		}
	})
	return func() {
		cancel()
		done()
	}
}
