package main

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
)

// abandoned is after what time the entries that a consumer died with are taken over.
const abandoned = 30 * time.Second

// drained waits until no order is on its way. It does not sit out the half minute after
// which a dead consumer's entries are another one's: it has Redis count them as that old.
func (s *shop) drained(client *redis.Client) {
	s.t.Helper()
	for _, keys := range s.allKeys() {
		for deadline := time.Now().Add(90 * time.Second); client.XLen(s.t.Context(), keys.Orders).Val() > 0; {
			if time.Now().After(deadline) {
				s.t.Fatalf("voucher %s is never at rest: %+v", s.voucher, client.XPending(s.t.Context(), keys.Orders, admkey.Group).Val())
			}
			s.age(client, keys.Orders)
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// age makes what was not heard of for two seconds count as abandoned.
func (s *shop) age(client *redis.Client, stream string) {
	s.t.Helper()
	held, err := client.XPendingExt(s.t.Context(), &redis.XPendingExtArgs{
		Stream: stream, Group: admkey.Group, Start: "-", End: "+", Count: 1000, Idle: 2 * time.Second,
	}).Result()
	for _, e := range held {
		if err == nil && e.Idle < abandoned {
			err = client.Do(s.t.Context(), "XCLAIM", stream, admkey.Group, e.Consumer, 2000, e.ID, "IDLE", abandoned.Milliseconds(), "JUSTID").Err()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// keys are those of a voucher that is not split.
func (s *shop) keys() admkey.Keys {
	s.t.Helper()
	return s.allKeys()[0]
}

// allKeys are those of all buckets.
func (s *shop) allKeys() []admkey.Keys {
	s.t.Helper()
	id, err := strconv.ParseInt(s.voucher, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	all := make([]admkey.Keys, max(1, s.buckets))
	for b := range all {
		all[b] = admkey.Of(keyPrefix, id, b)
	}
	return all
}

// balanced waits until a round is at rest, and looks at its sums.
func (c *chaos) balanced(n int, s *sale) {
	c.t.Helper()
	waitReady(c.t, c.apis[:]...)
	s.drained(c.redis.Client(c.t))
	now := *s.shop // some of its buyers may still be at it
	now.urls = []string{c.apis[0].url, c.apis[1].url}
	want := audit{InitialStock: s.stock, Orders: s.stock, Balanced: true}
	for i := range now.urls {
		if got := now.audit(i); got != want {
			c.t.Errorf("round %d, process %d: %+v", n, i, got)
		}
	}
}

// right is what must be so of each round in the end.
func (c *chaos) right(n int, s *sale) {
	c.t.Helper()
	c.balanced(n, s)
	s.urls = []string{c.apis[0].url, c.apis[1].url}
	// As many orders as there are, each of another user, and all of them confirmed:
	// so there is none that its buyer was not told of.
	if len(s.orders) != s.stock {
		c.t.Errorf("round %d: %d buyers were told of an order, of %d", n, len(s.orders), s.stock)
	}
	client := c.redis.Client(c.t)
	there := map[string]string{}
	for b, keys := range s.allKeys() {
		if dead := client.XLen(c.t.Context(), keys.Dead).Val(); dead != 0 {
			c.t.Errorf("round %d: %d dead letters in bucket %d", n, dead, b)
		}
		users, err := client.HGetAll(c.t.Context(), keys.Users).Result()
		if err != nil {
			c.t.Errorf("round %d: %v", n, err)
		}
		maps.Copy(there, users)
	}
	if len(there) != s.stock {
		c.t.Errorf("round %d: Redis has %d users", n, len(there))
	}
	var readers sync.WaitGroup
	users := make(chan int)
	for range connections {
		readers.Go(func() {
			for user := range users {
				c.readable(n, s, user)
			}
		})
	}
	for user, order := range s.orders {
		if there[strconv.Itoa(user)] != order {
			c.t.Errorf("round %d: user %d was told of %s, Redis has %s", n, user, order, there[strconv.Itoa(user)])
		}
		users <- user
	}
	close(users)
	readers.Wait()
}

// readable looks at an order as its user. One in twenty repeats the request.
func (c *chaos) readable(n int, s *sale, user int) {
	want := s.orders[user]
	if got := s.statusOf(user%2, want, user); got != "confirmed" {
		c.t.Errorf("round %d: order %s of user %d is %q", n, want, user, got)
	}
	if user%20 == 0 {
		if got := c.ask(s, user, user); got.order != want {
			c.t.Errorf("round %d: user %d had %s, and repeats: %+v", n, user, want, got)
		}
	}
}

// statusOf asks, as its user, what became of an order: its status, or the code of the
// refusal. Unlike status it may be called from any goroutine.
func (s *shop) statusOf(i int, order string, user int) string {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.urls[i%len(s.urls)]+"/api/v1/orders/"+order, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	resp, err := s.client.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	var got struct{ Status, Code any } // the status of a problem is a number
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return err.Error()
	}
	if resp.StatusCode != http.StatusOK {
		return strings.TrimSpace(resp.Status + " " + asText(got.Code))
	}
	return asText(got.Status)
}

func asText(v any) string {
	text, _ := v.(string)
	return text
}
