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

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
)

// abandoned is the idle time after which the entries of a dead consumer are claimed.
const abandoned = 30 * time.Second

// drained waits until no order is in flight. To avoid waiting half a minute until the entries of a dead consumer can
// be claimed, it makes Redis count them as that old.
func (s *testSale) drained(client *redis.Client) {
	s.t.Helper()
	for _, keys := range s.allKeys() {
		testkit.Until(s.t, "no order of voucher "+s.voucher+" is in flight", func() bool {
			s.age(client, keys.Orders)
			return client.XLen(s.t.Context(), keys.Orders).Val() == 0
		})
	}
}

// age makes entries that were idle for two seconds count as abandoned.
func (s *testSale) age(client *redis.Client, stream string) {
	s.t.Helper()
	held, err := client.XPendingExt(s.t.Context(), &redis.XPendingExtArgs{
		Stream: stream, Group: ledger.Group, Start: "-", End: "+", Count: 1000, Idle: 2 * time.Second,
	}).Result()
	if redis.HasErrorPrefix(err, "NOGROUP") {
		return // the stream is new after a rebuild, and no worker has created its group yet
	}
	for _, e := range held {
		if err == nil && e.Idle < abandoned {
			err = client.Do(s.t.Context(), "XCLAIM", stream, ledger.Group, e.Consumer, 2000, e.ID, "IDLE", abandoned.Milliseconds(), "JUSTID").Err()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// keys returns the keys of a voucher that is not split.
func (s *testSale) keys() ledger.Keys {
	s.t.Helper()
	return s.allKeys()[0]
}

// allKeys returns the keys of all buckets.
func (s *testSale) allKeys() []ledger.Keys {
	s.t.Helper()
	id, err := strconv.ParseInt(s.voucher, 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	all := make([]ledger.Keys, max(1, s.buckets))
	for b := range all {
		all[b] = ledger.KeysOf(keyPrefix, id, b)
	}
	return all
}

// balanced waits until no order of a round is in flight, and checks its audit.
func (c *chaos) balanced(n int, s *chaosRound) {
	c.t.Helper()
	waitReady(c.t, c.apis[:]...)
	s.drained(c.redis.primary.Client(c.t))
	now := *s.testSale // some of its buyers may still be at it
	now.urls = []string{c.apis[0].url, c.apis[1].url}
	want := audit{InitialStock: s.stock, Orders: s.stock, Balanced: true}
	for i := range now.urls {
		if got := now.audit(i); got != want {
			c.t.Errorf("round %d, process %d: %+v", n, i, got)
		}
	}
}

// checkRound checks the outcome of a round.
func (c *chaos) checkRound(n int, s *chaosRound) {
	c.t.Helper()
	c.balanced(n, s)
	s.urls = []string{c.apis[0].url, c.apis[1].url}
	// There are as many orders as stock, each of another user, and all are confirmed. So no order exists without a
	// buyer who was told of it.
	if len(s.orders) != s.stock {
		c.t.Errorf("round %d: %d buyers were told of an order, of %d", n, len(s.orders), s.stock)
	}
	client := c.redis.primary.Client(c.t)
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
	if got := s.statusOf(user%2, want, user); got != "confirmed" {
		c.t.Errorf("round %d: order %s of user %d is %q", n, want, user, got)
	}
	if user%20 == 0 {
		if got := s.buyUntilAnswered(user, user, "key-"+strconv.Itoa(user)); got.order != want {
			c.t.Errorf("round %d: user %d had %s, and repeats: %+v", n, user, want, got)
		}
	}
}

// statusOf returns the status of an order, as its user sees it, or the code of the problem. It repeats the query
// until the answer is neither a network error nor unavailable, as a client does: on a busy machine a server may be
// late. It may be called from any goroutine.
func (s *testSale) statusOf(i int, order string, user int) (told string) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		told = s.statusNow(i, order, user)
		if !strings.HasPrefix(told, "503") && !strings.HasPrefix(told, "network") {
			return told
		}
	}
	return told
}

// statusNow is one query of statusOf.
func (s *testSale) statusNow(i int, order string, user int) string {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.urls[i%len(s.urls)]+"/api/v1/orders/"+order, nil)
	if err != nil {
		return err.Error()
	}
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	resp, err := s.client.Do(req)
	if err != nil {
		return "network: " + err.Error()
	}
	defer resp.Body.Close()
	var got struct{ Status, Code any } // the status of a problem is a number
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return "network: " + err.Error()
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
