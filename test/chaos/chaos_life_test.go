package chaos

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/payment/sandbox"
	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestChaosLife runs rounds of sales that ask for payment, over two processes: under the locked flow and under
// admission in turn. The buyers pay, pay twice, cancel, pay what they have cancelled, or do nothing, and the
// administrator refunds. The provider is a process of its own that duplicates, reorders and loses its events, and lets
// money arrive late. Meanwhile processes, Redis, MariaDB and the provider are killed or paused at random.
//
// Once a round has come to rest, the stock equation is exact, no order is paid and returned, and every unit of money
// has either paid for a voucher or gone back, once.
//
// SECKILL_TEST_ROUNDS is the number of rounds (default 2), SECKILL_TEST_SEED determines the targets of the faults.
func TestChaosLife(t *testing.T) {
	t.Parallel()
	runLifeChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 2))
}

// TestSoakChaosLife is TestChaosLife for some minutes.
func TestSoakChaosLife(t *testing.T) {
	testkit.Soak(t)
	runLifeChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 30))
}

func runLifeChaos(t *testing.T, rounds int) {
	t.Helper()
	seed := harness.Number(t, "SECKILL_TEST_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("SECKILL_TEST_ROUNDS=%d SECKILL_TEST_SEED=%d", rounds, seed)
	c := openLifeChaos(t, uint64(seed))
	begun := time.Now()
	for n := range rounds {
		c.round(n)
		if n > 0 {
			c.checkRound(n, c.rounds[n-1])
		}
		if (n+1)%10 == 0 {
			t.Logf("%d rounds, %v, %v", n+1, c.struck, time.Since(begun).Round(time.Second))
		}
	}
	c.checkRound(rounds, c.rounds[rounds-1])
	t.Logf("%d rounds in %v: %d kills and pauses %v; %d orders %v; %d payments of %d cents, %d of them refunded; by outcome %v, %d of paid_late under admission",
		rounds, time.Since(begun).Round(time.Second), c.kills(), c.struck, c.sum.orders, c.sum.states, c.sum.paid, c.sum.cents, c.sum.refunded, c.sum.outcomes, c.sum.late)
	for i, p := range c.apis {
		if err := p.Stop(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
}

// lifeChaos is a service with its provider, and the faults that are injected into both.
type lifeChaos struct {
	t       *testing.T
	rng     *rand.Rand
	mariadb *testkit.SQLServer
	where   harness.Stores
	books   *sql.DB
	redis   *testkit.RedisServer
	apis    [2]harness.Process
	urls    [2]atomic.Pointer[string]

	provider              *testkit.Process
	journal               string
	pages, events         *testkit.Proxy // to the provider, and from it to the service: their addresses stay
	providerURL, eventURL string

	client *http.Client
	users  atomic.Int64
	rounds []*lifeRound
	struck map[string]int
	sum    lifeSum
}

func openLifeChaos(t *testing.T, seed uint64) *lifeChaos {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * harness.Connections}
	t.Cleanup(transport.CloseIdleConnections)
	c := &lifeChaos{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), struck: map[string]int{}, journal: filepath.Join(t.TempDir(), "provider"),
		mariadb: testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1"), redis: testkit.NewRedis(t, harness.Fsync("always")...),
		sum: lifeSum{states: map[string]int{}, outcomes: map[string]int{}},
		client: &http.Client{
			Transport: transport, Timeout: 2 * time.Second, // a buyer whose process is paused tries the other one
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	// The two addresses lead nowhere until the processes behind them are there.
	c.pages, c.events = testkit.NewProxy(t, "127.0.0.1:1"), testkit.NewProxy(t, "127.0.0.1:1")
	c.providerURL, c.eventURL = "http://"+c.pages.Addr(), "http://"+c.events.Addr()+service.PaymentsPath
	c.startProvider()
	c.where = harness.Stores{DB: c.mariadb.Database(t), Redis: []string{c.redis.Addr()}}.With(
		"SECKILL_PAYMENT_URL="+c.providerURL, "SECKILL_PAYMENT_API_KEY="+harness.PaymentKey, "SECKILL_PAYMENT_WEBHOOK_SECRET="+harness.WebhookSecret,
		"SECKILL_CLAIM_IDLE=2s", "SECKILL_USER_LOOKUPS=100000")
	for i := range c.apis {
		c.start(i)
	}
	var err error
	if c.books, err = sql.Open("mysql", c.where.DB.DSN); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.books.Close() })
	return c
}

func (c *lifeChaos) start(i int) {
	c.t.Helper()
	p := harness.Start(c.t, c.where)
	c.apis[i] = p
	c.urls[i].Store(&p.URL)
	c.events.SetUpstream(strings.TrimPrefix(p.URL, "http://"))
}

// startProvider starts the provider with what its file has, on another port than before.
func (c *lifeChaos) startProvider() {
	c.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	addr := listener.Addr().String()
	if err := listener.Close(); err != nil {
		c.t.Fatal(err)
	}
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
func (c *lifeChaos) misbehave() {
	c.t.Helper()
	b := sandbox.Behaviour{Duplicate: c.rng.IntN(3), ReorderMS: c.rng.IntN(3) * 50, Lose: []float64{0, 0.1, 0.3}[c.rng.IntN(3)]}
	if c.rng.IntN(2) == 0 {
		b.PayLateMS = c.rng.IntN(int(2 * lifePayWithin / time.Millisecond))
	}
	body, err := json.Marshal(b)
	if err != nil {
		c.t.Fatal(err)
	}
	testkit.Until(c.t, "the provider misbehaves", func() bool {
		status, _ := c.send(http.MethodPut, c.providerURL+"/sandbox/behaviour", 0, http.Header{
			"Authorization": {"Bearer " + harness.PaymentKey}, "Content-Type": {"application/json"},
		}, string(body))
		return status == http.StatusOK
	})
}

// lifeRound is the voucher of one round.
type lifeRound struct {
	*harness.Sale
	stock int
	calm  chan struct{}

	mu     sync.Mutex
	orders map[string]int // the users of the orders that were told, by id
}

const (
	// lifePayWithin is how long a buyer has to pay.
	lifePayWithin = 3 * time.Second
	lifePrice     = 8000
)

func (c *lifeChaos) round(n int) {
	c.t.Helper()
	harness.WaitReady(c.t, c.apis[:]...)
	c.misbehave()
	policy, buckets := `{"lock_wait_ms":5000}`, 0
	if n%2 == 1 {
		buckets = 1 + 3*(n/2%2)
		policy = fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets)
	}
	r := &lifeRound{stock: 20 + c.rng.IntN(80), calm: make(chan struct{}), orders: map[string]int{}}
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
		time.Sleep(time.Duration(20+c.rng.IntN(600)) * time.Millisecond) // at a random moment of the load
		c.strike()
	}
	close(r.calm)
	buyers.Wait()
	for i, p := range c.apis {
		select {
		case <-p.Done():
			c.t.Fatalf("process %d ended by itself: %v\n%s", i, p.Wait(), p.Output())
		default:
		}
	}
}

// openPaidSale is openSale of a voucher that asks for payment.
func openPaidSale(t *testing.T, stock int, policy string, processes ...harness.Process) *harness.Sale {
	t.Helper()
	return harness.OpenSaleOf(t, fmt.Sprintf(`"stock":%d,"price_cents":%d,"pay_within_s":%d`, stock, lifePrice, int(lifePayWithin.Seconds())), policy, processes...)
}

// strike kills a target and starts it again, or pauses it for a while.
func (c *lifeChaos) strike() {
	c.t.Helper()
	type target interface {
		Kill()
		Pause()
		Resume()
	}
	i := c.rng.IntN(2)
	name, hit, back := "API", target(c.apis[i]), func() { c.start(i) }
	switch c.rng.IntN(5) {
	case 0:
		name, hit, back = "Redis", c.redis, c.redis.Restart
	case 1:
		name, hit, back = "MariaDB", c.mariadb, c.mariadb.Restart
	case 2:
		name, hit, back = "provider", c.provider, c.startProvider
	}
	if c.rng.IntN(5) == 0 {
		c.struck["SIGSTOP "+name]++
		hit.Pause()
		time.Sleep(time.Duration(50+c.rng.IntN(2000)) * time.Millisecond)
		hit.Resume()
		return
	}
	c.struck["SIGKILL "+name]++
	hit.Kill()
	time.Sleep(time.Duration(c.rng.IntN(300)) * time.Millisecond)
	back()
}

func (c *lifeChaos) kills() (n int) {
	for _, one := range c.struck {
		n += one
	}
	return n
}

var errNotAtRest = errors.New("not at rest")

// redisClient is a client of the round's Redis.
func (c *lifeChaos) redisClient() *redis.Client { return harness.RedisAt(c.t, c.redis.Addr()) }
