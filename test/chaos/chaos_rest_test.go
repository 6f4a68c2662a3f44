package chaos

import (
	"maps"
	"strconv"
	"sync"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// balanced waits until no order of a round is in flight, and checks its audit.
func (c *chaos) balanced(n int, s *chaosRound) {
	c.t.Helper()
	harness.WaitReady(c.t, c.apis[:]...)
	s.Drained(c.redis.Primary.Client(c.t))
	now := *s.Sale // some of its buyers may still be at it
	now.URLs = []string{c.apis[0].URL, c.apis[1].URL}
	want := harness.Audit{InitialStock: s.stock, Orders: s.stock, Balanced: true}
	for i := range now.URLs {
		fail.Unequal(c.t, now.Audit(i), want, "round %d, process %d", n, i)
	}
}

// checkRound checks the outcome of a round.
func (c *chaos) checkRound(n int, s *chaosRound) {
	c.t.Helper()
	c.balanced(n, s)
	s.URLs = []string{c.apis[0].URL, c.apis[1].URL}
	// There are as many orders as stock, each of another user, and all are confirmed. So no order exists without a
	// buyer who was told of it.
	fail.Unequal(c.t, len(s.orders), s.stock, "round %d: buyers who were told of an order", n)
	client := c.redis.Primary.Client(c.t)
	there := map[string]string{}
	for b, keys := range s.AllKeys() {
		fail.Unequal(c.t, client.XLen(c.t.Context(), keys.Dead).Val(), 0, "round %d: dead letters in bucket %d", n, b)
		users, err := client.HGetAll(c.t.Context(), keys.Users).Result()
		fail.If(c.t, err, "round %d", n)
		maps.Copy(there, users)
	}
	fail.Unequal(c.t, len(there), s.stock, "round %d: users in Redis", n)
	var readers sync.WaitGroup
	users := make(chan int)
	for range harness.Connections {
		readers.Go(func() {
			for user := range users {
				c.readable(n, s, user)
			}
		})
	}
	for user, order := range s.orders {
		has := there[strconv.Itoa(user)]
		if id, _, err := ledger.ParseReserved(has); err != nil || strconv.FormatInt(id, 10) != order {
			c.t.Errorf("round %d: user %d was told of %s, Redis has %q", n, user, order, has)
		}
		users <- user
	}
	close(users)
	readers.Wait()
}

// readable queries an order as its user. One in twenty users repeats the request.
func (c *chaos) readable(n int, s *chaosRound, user int) {
	want := s.orders[user]
	fail.Unequal(c.t, s.StatusOf(user%2, want, user), "confirmed", "round %d: order %s of user %d", n, want, user)
	if user%20 == 0 {
		fail.Unequal(c.t, s.BuyUntilAnswered(user, user, "key-"+strconv.Itoa(user)).Order, want, "round %d: the repetition of user %d", n, user)
	}
}
