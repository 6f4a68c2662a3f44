package chaos

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/payment/sandbox"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestChaosLifecycle runs rounds of sales that ask for payment, over two processes: under the locked flow, with one of
// the ways to take from the stock, and under admission in turn. The buyers pay, pay twice, cancel, pay what they have
// cancelled, or do nothing, and the administrator refunds. The provider is a process of its own that duplicates,
// reorders and loses its events, and lets money arrive late. Meanwhile processes, Redis, MariaDB and the provider are
// killed or paused at random.
//
// Once a round has come to rest, the stock equation is exact, no order is paid and returned, and every unit of money
// has either paid for a unit or gone back, once.
//
// SECKILL_TEST_ROUNDS is the number of rounds (default 2), SECKILL_TEST_SEED determines the faults and their targets.
func TestChaosLifecycle(t *testing.T) {
	t.Parallel()
	openLifecycleChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 2), oneMariaDB(t)).run()
}

// TestSoakChaosLifecycle is TestChaosLifecycle for some minutes.
func TestSoakChaosLifecycle(t *testing.T) {
	testkit.Soak(t)
	openLifecycleChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 30), oneMariaDB(t)).run()
}

func (c *lifecycleChaos) run() {
	c.t.Helper()
	for n := range c.planned {
		c.round(n)
		if n > 0 {
			c.checkRound(n, c.rounds[n-1])
		}
		if (n+1)%10 == 0 {
			c.t.Logf("%d rounds, %v", n+1, c.summary())
		}
	}
	c.checkRound(c.planned, c.rounds[c.planned-1])
	if c.watch != nil {
		c.watch.close()
	}
	c.t.Logf("%d rounds in %v; %d orders %v; %d payments of %d cents, %d of them refunded; by outcome %v, %d of paid_late under admission",
		c.planned, c.summary(), c.sum.orders, c.sum.states, c.sum.paid, c.sum.cents, c.sum.refunded, c.sum.outcomes, c.sum.late)
	c.end()
}

// lifecycleChaos is a service with its provider, and the faults that are injected into both.
type lifecycleChaos struct {
	*bed
	planned int // rounds
	db      lifecycleDatabase
	where   harness.Stores
	books   *sql.DB
	redis   *testkit.RedisServer
	watch   *watch // nil: nobody measures

	provider              *testkit.Process
	journal               string
	pages, events         *testkit.Proxy // to the provider, and from it to the service: their addresses stay
	providerURL, eventURL string

	rounds []*lifecycleRound
	sum    lifecycleSum
}

// lifecycleDatabase is the database of the orders.
type lifecycleDatabase struct {
	name   string
	where  testkit.Database
	target func(*rand.Rand) (hit target, back func()) // one of its servers
	locked []string                                   // the policies of the locked flow, of which each round draws one
	hands  func(*lifecycleChaos) [][]strike
}

func oneMariaDB(t *testing.T) lifecycleDatabase {
	t.Helper()
	server := testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1")
	return lifecycleDatabase{
		name: "MariaDB", where: server.Database(t), target: func(*rand.Rand) (target, func()) { return server, server.Restart },
		locked: append(lifecycleLocked(), `{"lock":"none","stock":"units"}`), hands: (*lifecycleChaos).hands,
	}
}

func openLifecycleChaos(t *testing.T, rounds int, db lifecycleDatabase) *lifecycleChaos {
	t.Helper()
	c := &lifecycleChaos{
		bed: openBed(t, rounds), planned: rounds, db: db, journal: filepath.Join(t.TempDir(), "provider"), redis: testkit.NewRedis(t, harness.Fsync("always")...),
		sum: lifecycleSum{states: map[string]int{}, outcomes: map[string]int{}},
	}
	// The two addresses lead nowhere until the processes behind them are there.
	c.pages, c.events = testkit.NewProxy(t, "127.0.0.1:1"), testkit.NewProxy(t, "127.0.0.1:1")
	c.providerURL, c.eventURL = "http://"+c.pages.Addr(), "http://"+c.events.Addr()+service.PaymentsPath
	c.startProvider()
	c.where = harness.Stores{DB: db.where, Redis: []string{c.redis.Addr()}}.With(
		"SECKILL_PAYMENT_URL="+c.providerURL, "SECKILL_PAYMENT_API_KEY="+harness.PaymentKey, "SECKILL_PAYMENT_WEBHOOK_SECRET="+harness.WebhookSecret,
		"SECKILL_CLAIM_IDLE=2s", "SECKILL_USER_LOOKUPS=100000")
	for i := range c.apis {
		c.start(i)
	}
	var err error
	if c.books, err = sql.Open("mysql", c.where.DB.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.books.Close() }) // another one by then, after a move
	return c
}

func (c *lifecycleChaos) start(i int) {
	c.t.Helper()
	c.serve(i, c.where)
	c.events.SetUpstream(strings.TrimPrefix(c.apis[i].URL, "http://"))
}

// startProvider starts the provider with what its file has, on another port than before.
func (c *lifecycleChaos) startProvider() {
	c.t.Helper()
	addr := testkit.FreeAddr(c.t)
	c.provider = testkit.Start(c.t, testkit.Command{
		Path: harness.SelfPath(c.t), Args: []string{
			"payment-sandbox", "-listen", addr, "-public-url", c.providerURL, "-webhook-url", c.eventURL, "-file", c.journal,
		},
		Env: []string{harness.AsService, "SECKILL_PAYMENT_API_KEY=" + harness.PaymentKey, "SECKILL_PAYMENT_WEBHOOK_SECRET=" + harness.WebhookSecret},
	})
	c.provider.WaitLine(c.t, `payment sandbox: .* serving on`)
	c.pages.SetUpstream(addr)
}

// misbehave has the provider misbehave in a new way.
func (c *lifecycleChaos) misbehave() {
	c.t.Helper()
	b := sandbox.Behaviour{Duplicate: c.rng.IntN(3), ReorderMS: c.rng.IntN(3) * 50, Lose: []float64{0, 0.1, 0.3}[c.rng.IntN(3)]}
	if c.rng.IntN(2) == 0 {
		b.PayLateMS = c.rng.IntN(int(2 * lifecyclePayWithin / time.Millisecond))
	}
	body, err := json.Marshal(b)
	fail.NowIf(c.t, err)
	testkit.Until(c.t, "the provider misbehaves", func() bool {
		status, _ := c.send(http.MethodPut, c.providerURL+"/sandbox/behaviour", 0, http.Header{
			"Authorization": {"Bearer " + harness.PaymentKey}, "Content-Type": {"application/json"},
		}, string(body))
		return status == http.StatusOK
	})
}

// lifecycleRound is the voucher of one round.
type lifecycleRound struct {
	*harness.Sale
	stock int
	calm  chan struct{}

	mu     sync.Mutex
	orders map[string]int // the users of the orders that were told, by id
}

const (
	// lifecyclePayWithin is how long a buyer has to pay.
	lifecyclePayWithin = 3 * time.Second
	lifecyclePrice     = 8000
)

// lifecycleLocked are policies that every database has.
func lifecycleLocked() []string {
	return []string{`{"lock_wait_ms":5000}`, `{"lock":"none","stock":"rows"}`, `{"lock":"none","stock":"grouped"}`}
}

func (c *lifecycleChaos) round(n int) {
	c.t.Helper()
	harness.WaitReady(c.t, c.apis[:]...)
	c.misbehave()
	policy, buckets := c.db.locked[c.rng.IntN(len(c.db.locked))], 0
	if n%2 == 1 {
		buckets = 1 + 3*(n/2%2)
		policy = fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets)
	}
	r := &lifecycleRound{stock: 20 + c.rng.IntN(80), calm: make(chan struct{}), orders: map[string]int{}}
	r.Sale = openPaidSale(c.t, r.stock, policy, c.apis[:]...)
	r.Client, r.Buckets = c.client, buckets
	c.rounds = append(c.rounds, r)
	var buyers sync.WaitGroup
	for range harness.Connections {
		buyers.Go(func() {
			for c.t.Context().Err() == nil {
				c.buyer(r)
				select {
				case <-r.calm:
					return
				case <-time.After(rand.N(40 * time.Millisecond)): // as buyers come
				}
			}
		})
	}
	for range strikes {
		c.deal(600*time.Millisecond, func() [][]strike { return c.db.hands(c) })()
	}
	close(r.calm)
	buyers.Wait()
	c.checkAlive()
}

// openPaidSale is openSale of a voucher that asks for payment.
func openPaidSale(t *testing.T, stock int, policy string, processes ...harness.Process) *harness.Sale {
	t.Helper()
	return harness.OpenSaleOf(t, fmt.Sprintf(`"stock":%d,"price_cents":%d,"pay_within_s":%d`, stock, lifecyclePrice, int(lifecyclePayWithin.Seconds())), policy, processes...)
}

// hands are the strikes of four rounds. In the first two each target is killed, all but the provider under the locked
// flow.
func (c *lifecycleChaos) hands() [][]strike {
	kill := func(name string) strike { return func() { c.kill(name) } }
	anyOf := func() string { return []string{"API", "API", "Redis", c.db.name, "provider"}[c.rng.IntN(5)] }
	stop := func() {
		name := anyOf()
		target, _ := c.target(name)
		c.stop(name, target)
	}
	return [][]strike{
		{kill("API"), kill(c.db.name), kill("Redis")},
		{kill("provider"), kill("API"), stop},
		{kill("API"), kill("provider"), kill(anyOf()), kill(anyOf()), kill(anyOf()), stop},
	}
}

// kill kills a target and starts it again.
func (c *lifecycleChaos) kill(name string) {
	c.struck["SIGKILL "+name]++
	target, back := c.target(name)
	target.Kill()
	time.Sleep(c.upTo(300 * time.Millisecond))
	back()
}

type target interface {
	Kill()
	Pause()
	Resume()
}

// target returns a target and what starts it again.
func (c *lifecycleChaos) target(name string) (hit target, back func()) {
	switch name {
	case "Redis":
		return c.redis, c.redis.Restart
	case c.db.name:
		return c.db.target(c.rng)
	case "provider":
		return c.provider, c.startProvider
	}
	i := c.rng.IntN(len(c.apis))
	return c.apis[i], func() { c.start(i) }
}

var errNotAtRest = errors.New("not at rest")

// redisClient is a client of the round's Redis.
func (c *lifecycleChaos) redisClient() *redis.Client { return harness.RedisAt(c.t, c.redis.Addr()) }
