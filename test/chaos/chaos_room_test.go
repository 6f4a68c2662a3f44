package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestChaosRoom runs rounds of a sale with a waiting room over two processes, under both flows in turn. Visitors come
// before the opening and after it, wait, leave, share their passes, and order without one, while processes and servers
// are killed and paused, the replica of Redis is promoted, Redis loses the room, and the sale is paused. Nobody has an
// order without a pass, no pass has two orders, no position that was told changes, nobody waits behind one who was
// served long ago, and the books are exact.
func TestChaosRoom(t *testing.T) {
	t.Parallel()
	runChaosRoom(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 1))
}

// TestSoakChaosRoom is TestChaosRoom for longer.
func TestSoakChaosRoom(t *testing.T) {
	testkit.Soak(t)
	runChaosRoom(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 60))
}

func runChaosRoom(t *testing.T, rounds int) {
	c := &chaos{bed: openBed(t, rounds), db: openChaosMariaDB(t), redis: harness.NewReplicated(t, harness.Fsync("always")...)}
	for i := range c.apis {
		c.start(i)
	}
	orders := 0
	for n := range rounds {
		r := c.openRoom(n)
		r.play()
		orders += r.check()
		if t.Failed() {
			break
		}
	}
	t.Logf("%d rounds in %v; %d orders, %d visitors", rounds, c.summary(), orders, c.users.Load())
	c.end()
}

// roomRound is the voucher of one round.
type roomRound struct {
	*harness.Sale
	c     *chaos
	stock int
	begin time.Time

	mu     sync.Mutex
	orders map[string]string   // by pass
	passed map[int]bool        // users who got a pass
	served map[int64]time.Time // when the first pass of a position was seen
	bought map[int]string      // orders, by user
	closed bool                // visitors give up where all is sold
}

// visitor is one user.
type visitor struct {
	*roomRound
	user     int
	rng      *rand.Rand
	ticket   string
	position int64
}

// roomAnswer is an answer of the room, of an order, or a problem.
type roomAnswer struct {
	State, Code, Ticket, Pass string
	OrderID                   string `json:"order_id"`
	Position, Serving         int64
	PollAfterMS               int64 `json:"poll_after_ms"`
}

func (c *chaos) openRoom(n int) *roomRound {
	c.t.Helper()
	harness.WaitReady(c.t, c.apis[:]...)
	r := &roomRound{
		c: c, stock: 60 + c.rng.IntN(120), begin: time.Now().Add(2 * time.Second),
		orders: map[string]string{}, passed: map[int]bool{}, served: map[int64]time.Time{}, bought: map[int]string{},
	}
	flow := `"flow":"admission"`
	if n%2 == 1 {
		flow = `"lock":"none"`
	}
	body := fmt.Sprintf(`{"title":"t","stock":%d,"begin_at":%q,"end_at":%q,"policy":{%s,"room":{"rate":40,"draw_s":60,"pass_s":5}}}`,
		r.stock, r.begin.Format(time.RFC3339Nano), r.begin.Add(time.Hour).Format(time.RFC3339Nano), flow)
	var created struct{ ID string }
	testkit.Until(c.t, "the voucher is created", func() bool {
		status, answer := harness.Call(c.t, http.MethodPost, c.apis[0].URL+"/api/v1/vouchers", nil, body)
		return status == http.StatusCreated && json.Unmarshal([]byte(answer), &created) == nil
	})
	r.Sale = &harness.Sale{T: c.t, URLs: []string{c.apis[0].URL, c.apis[1].URL}, Voucher: created.ID, Client: c.client}
	return r
}

// ask sends a request to one of the processes. Without an answer the state is "network".
func (v *visitor) ask(method, path string, header http.Header) (a roomAnswer, status int) {
	url := *v.c.urls[v.rng.IntN(len(v.c.urls))].Load() + "/api/v1/vouchers/" + v.Voucher + path
	req, err := http.NewRequestWithContext(context.WithoutCancel(v.T.Context()), method, url, nil)
	if err != nil {
		v.T.Error(err)
		return a, 0
	}
	req.Header = header.Clone()
	req.Header.Set("X-User-ID", strconv.Itoa(v.user))
	resp, err := v.Client.Do(req)
	if err != nil {
		return roomAnswer{Code: "network"}, 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || json.Unmarshal(text, &a) != nil {
		return roomAnswer{Code: "network"}, 0
	}
	return a, resp.StatusCode
}

func (r *roomRound) play() {
	c := r.c
	var visiting sync.WaitGroup
	for i := range 3 * r.stock {
		v := &visitor{roomRound: r, user: int(c.users.Add(1)), rng: rand.New(rand.NewPCG(c.rng.Uint64(), 2))}
		delay := time.Duration(v.rng.Int64N(int64(2 * time.Second)))
		if i%3 == 2 { // after the opening
			delay += 2 * time.Second
		}
		visiting.Go(func() { time.Sleep(delay); v.visit() })
	}
	time.Sleep(time.Second)
	for range strikes {
		c.deal(2*time.Second, func() [][]strike { return c.roomHands(r) })()
	}
	harness.WaitReady(c.t, c.apis[:]...)
	testkit.Until(c.t, "every unit is sold", func() bool { // what crashed in the middle holds its unit for a minute and a half
		return r.bookings() == r.stock
	})
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	visiting.Wait()
	c.checkAlive()
}

// bookings is how many users were told of an order.
func (r *roomRound) bookings() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.bought)
}

func (r *roomRound) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed || r.T.Failed()
}

// visit takes a ticket, waits, and orders. Some leave before they are called, some with a pass, and some try without
// one.
func (v *visitor) visit() {
	leaves, wastes := v.user%7 == 0, v.user%11 == 0
	for !v.over() {
		if v.user%13 == 0 {
			v.order("")
		}
		if v.ticket == "" {
			if a, status := v.ask(http.MethodPost, "/room", http.Header{}); status == http.StatusCreated {
				v.ticket, v.position = a.Ticket, 0
			}
			time.Sleep(100 * time.Millisecond)
			continue
		}
		if leaves {
			return
		}
		asked := time.Now()
		a, status := v.ask(http.MethodGet, "/room?wait=1s", http.Header{"Room-Ticket": {v.ticket}})
		switch {
		case status != http.StatusOK:
			time.Sleep(200 * time.Millisecond)
			continue
		case a.State == "lapsed" || a.State == "ordered":
			if a.State == "ordered" && v.told() != "" {
				return
			}
			v.ticket = ""
			continue
		}
		v.seen(a, asked)
		if a.Pass != "" && !wastes && v.order(a.Pass) {
			return
		}
		wastes = wastes && a.Pass == ""
		time.Sleep(min(time.Second, time.Duration(a.PollAfterMS)*time.Millisecond))
	}
}

// seen checks an answer against what was told before.
func (v *visitor) seen(a roomAnswer, asked time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if a.Position > 0 && v.position > 0 && a.Position != v.position {
		v.T.Errorf("user %d was told position %d, and now %d", v.user, v.position, a.Position)
	}
	v.position = max(v.position, a.Position)
	if a.Pass != "" {
		v.passed[v.user] = true
		if a.Position > a.Serving {
			v.T.Errorf("position %d has a pass, %d are called", a.Position, a.Serving)
		}
		if v.served[a.Position].IsZero() {
			v.served[a.Position] = time.Now()
		}
		return
	}
	if a.State != "waiting" {
		return
	}
	// An instance that was paused, or that began anew, is seconds behind, and not longer.
	for position, at := range v.served {
		if position > a.Position && asked.Sub(at) > 15*time.Second {
			v.T.Errorf("position %d waits %v after position %d was served", a.Position, asked.Sub(at), position)
			return
		}
	}
}

func (v *visitor) told() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bought[v.user]
}

// order orders with a pass, if that is not empty, until that is answered, and reports whether the user has an order.
func (v *visitor) order(pass string) bool {
	header := http.Header{"Idempotency-Key": {fmt.Sprintf("k%d-%d", v.user, v.rng.Int64())}}
	if pass != "" {
		header.Set("Room-Pass", pass)
	}
	if pass != "" && v.user%5 == 0 { // a friend tries it first
		friend := &visitor{roomRound: v.roomRound, user: v.user + 1_000_000_000, rng: v.rng}
		if a, _ := friend.ask(http.MethodPost, "/orders", header); a.OrderID != "" {
			v.T.Errorf("a pass of user %d was worth an order to another user", v.user)
		}
	}
	for !v.over() {
		a, _ := v.ask(http.MethodPost, "/orders", header)
		switch {
		case a.OrderID != "":
			v.mu.Lock()
			defer v.mu.Unlock()
			if pass == "" {
				v.T.Errorf("user %d has an order without a pass", v.user)
			}
			if other := v.orders[pass]; other != "" && other != a.OrderID {
				v.T.Errorf("a pass was worth two orders: %s and %s", other, a.OrderID)
			}
			v.orders[pass], v.bought[v.user] = a.OrderID, a.OrderID
			return true
		case a.Code == "already_ordered": // the answer to it was lost, with another key
			v.mu.Lock()
			defer v.mu.Unlock()
			v.bought[v.user] = "unknown"
			return true
		case a.Code == "network" || a.Code == "unavailable" || a.Code == "busy" || a.Code == "rate_limited":
			time.Sleep(100 * time.Millisecond)
		default:
			return false
		}
	}
	return false
}

// check compares the books with what the visitors were told, and returns the number of orders.
func (r *roomRound) check() int {
	r.T.Helper()
	r.URLs = []string{r.c.apis[0].URL, r.c.apis[1].URL}
	audit := r.AtRest(0)
	fail.Unequal(r.T, audit.Balanced, true, "%+v", audit)
	fail.Unequal(r.T, audit.Orders, r.stock, "orders")
	fail.Unequal(r.T, audit.Orders, len(r.bought), "users who were told of one")
	for user := range r.bought {
		fail.Unequal(r.T, r.passed[user], true, "user %d has an order and never had a pass", user)
	}
	return audit.Orders
}

// roomHands are the strikes, of two rounds.
func (c *chaos) roomHands(r *roomRound) [][]strike {
	kill := func(v ...int) strike { return func() { c.kill(v...) } }
	promote := func() {
		c.struck["promotion of the replica"]++
		c.redis.Promote(c.upTo(100 * time.Millisecond))
	}
	return [][]strike{
		{kill(victimRedis), kill(victimA), func() { c.loseRoom(r) }},
		{kill(victimB), promote, func() { c.pauseSale(r) }, c.stopOne, kill(victimMariaDB), kill(victimA, victimB), kill(victimRedis, victimA)},
	}
}

// loseRoom removes all that Redis has of the room.
func (c *chaos) loseRoom(r *roomRound) {
	c.struck["Redis loses the room"]++
	client := c.redis.Primary.Client(c.t)
	keys, err := client.Keys(c.t.Context(), "*room:{"+r.Voucher+"}*").Result()
	fail.NowIf(c.t, err)
	if len(keys) > 0 {
		fail.NowIf(c.t, client.Unlink(c.t.Context(), keys...).Err())
	}
}

// pauseSale pauses the sale for a while.
func (c *chaos) pauseSale(r *roomRound) {
	c.struck["the sale is paused"]++
	for _, body := range []string{`{"paused":true}`, `{"paused":false,"room":{"rate":60}}`} {
		testkit.Until(c.t, "the voucher is changed", func() bool {
			url := *c.urls[0].Load() + "/api/v1/vouchers/" + r.Voucher
			status, answer := harness.Call(c.t, http.MethodPatch, url, http.Header{"If-Match": {"*"}}, body)
			if status == http.StatusBadRequest {
				c.t.Fatalf("%s", strings.TrimSpace(answer))
			}
			return status == http.StatusOK
		})
		c.wait()
	}
}
