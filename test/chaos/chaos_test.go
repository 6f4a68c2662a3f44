package chaos

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestChaos runs rounds of a sale by admission over two processes. In each round, processes and servers are killed or
// paused at random while buyers come. Every buyer repeats the request, with one Idempotency-Key, until it is answered.
// Beside that, the database refuses for reasons of its own, the replica of Redis is promoted although the primary is
// healthy, and the memory of Redis is full or may be evicted. A third process is started with another Redis, the
// database is set back to an epoch before the one of Redis, Redis forbids a command of the scripts, and nobody reads
// the logs. Afterwards nothing is lost, duplicated, oversold or rejected. Every second voucher is split into buckets.
//
// A round does not wait until the orders of the one before are processed: entries that a process left behind are
// claimed while others die. By the end of the next round all of them are processed and the audit is balanced. At the
// end every order of every round is checked.
//
// SECKILL_TEST_ROUNDS is the number of rounds (default 2, in which each kind of fault strikes once). SECKILL_TEST_SEED
// determines the faults and their targets.
func TestChaos(t *testing.T) {
	t.Parallel()
	runChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 2), openChaosMariaDB)
}

// TestSoakChaos is TestChaos for some minutes.
func TestSoakChaos(t *testing.T) {
	testkit.Soak(t)
	runChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 30), openChaosMariaDB)
}

// TestSoakChaosGalera is TestChaos with a Galera cluster: each process writes to a node of its own, and nodes are
// killed and paused.
func TestSoakChaosGalera(t *testing.T) {
	testkit.Soak(t)
	runChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 10), openChaosGalera)
}

func runChaos(t *testing.T, rounds int, database func(*testing.T) chaosDatabase) {
	t.Helper()
	runChaosOf(t, rounds, database, false)
}

func runChaosOf(t *testing.T, rounds int, database func(*testing.T) chaosDatabase, steered bool) {
	t.Helper()
	c := &chaos{steered: steered, bed: openBed(t, rounds), db: database(t), redis: harness.NewReplicated(t, harness.Fsync("always")...), other: testkit.NewRedis(t)}
	t.Cleanup(c.stragglers.Wait)
	for i := range c.apis {
		c.start(i)
	}
	for n := range rounds {
		c.round()
		if n > 0 {
			c.balanced(n, c.sales[n-1])
		}
		if (n+1)%10 == 0 {
			t.Logf("%d rounds, %v", n+1, c.summary())
		}
	}
	c.stragglers.Wait()
	orders, answers := 0, map[string]int{}
	for n, s := range c.sales {
		c.checkRound(n+1, s)
		orders += len(s.orders)
		for code, n := range s.codes {
			answers[code] += n
		}
	}
	t.Logf("%d rounds in %v, of these %d before all was sold; %d orders, %d buyers, answers %v",
		rounds, c.summary(), c.during, orders, c.users.Load(), answers)
	c.end()
}

// chaos is a service and the faults that are injected into it.
type chaos struct {
	*bed
	db         chaosDatabase
	redis      *harness.Replicated
	other      *testkit.RedisServer // of nobody
	sales      []*chaosRound
	stragglers sync.WaitGroup
	during     int // strikes before all was sold
	steered    bool
}

func (c *chaos) start(i int) {
	c.t.Helper()
	// A process is sometimes paused for longer than the others wait.
	where := harness.Stores{DB: c.db.of[i], Redis: []string{c.redis.Addr()}}
	c.serve(i, where.With("SECKILL_CLAIM_IDLE=2s", "SECKILL_REDIS_WAIT_REPLICAS=1"))
}

// chaosRound is the voucher of one round.
type chaosRound struct {
	*harness.Sale
	stock int
	over  atomic.Bool // a buyer was told that it is sold out

	pauses pauses

	mu     sync.Mutex
	orders map[int]string // by user
	codes  map[string]int
}

func (c *chaos) round() {
	c.t.Helper()
	harness.WaitReady(c.t, c.apis[:]...)
	s := &chaosRound{stock: 400 + c.rng.IntN(1600), orders: map[int]string{}, codes: map[string]int{}}
	buckets := 1
	if len(c.sales)%2 == 1 {
		buckets = 4
	}
	s.Sale = harness.OpenSale(c.t, s.stock, fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets), c.apis[:]...)
	s.Client, s.Buckets = c.client, buckets
	c.sales = append(c.sales, s)
	var buyers sync.WaitGroup
	calm := make(chan struct{})
	for range harness.Connections {
		buyers.Go(func() { c.buyers(s, calm) })
	}
	var admin *administrator
	if c.steered {
		admin = c.administer(s)
	}
	for range strikes {
		strike := c.deal(400*time.Millisecond, c.hands)
		if !s.over.Load() {
			c.during++
		}
		strike()
	}
	if c.steered {
		harness.WaitReady(c.t, c.apis[:]...)
		admin.end()
	}
	close(calm)
	buyers.Wait()
	c.checkAlive()
}

// buyers is one connection: it sends one buyer's request after the other, until the faults are over and all is sold.
func (c *chaos) buyers(s *chaosRound, calm <-chan struct{}) {
	for c.t.Context().Err() == nil {
		user := int(c.users.Add(1))
		if answered, _ := c.buyUntilAnswered(s, user, time.Second); !answered {
			insist := func() {
				if answered, last := c.buyUntilAnswered(s, user, 2*time.Minute); !answered {
					c.t.Errorf("user %d never had an answer, but %q", user, last)
				}
			}
			if c.steered { // while it is paused, everybody waits
				insist()
			} else { // the next buyer does not wait for this one
				c.stragglers.Go(insist)
			}
		}
		select {
		case <-calm:
			if s.over.Load() {
				return
			}
		default:
		}
		time.Sleep(rand.N(120 * time.Millisecond)) // as buyers come; the sale lasts about as long as the faults
	}
}

// buyUntilAnswered repeats a request until it is answered, or until patience has passed.
func (c *chaos) buyUntilAnswered(s *chaosRound, user int, patience time.Duration) (answered bool, last string) {
	for begun, n := time.Now(), user; ; n++ {
		paused := s.pauses.n.Load()
		got := c.ask(s, n, user)
		if n == user && got.Order != "" && paused%2 == 1 && paused == s.pauses.n.Load() {
			c.t.Errorf("user %d bought while the sale was paused", user)
		}
		s.mu.Lock()
		s.codes[got.Code]++
		if got.Order != "" {
			s.orders[user] = got.Order
		}
		s.mu.Unlock()
		switch got.Code {
		case "accepted", "created": // the latter where a repetition finds it confirmed
			return true, got.Code
		case "sold_out":
			s.over.Store(true)
			return true, got.Code
		case "network", "unavailable", "busy":
		case "sale_paused", "sale_ended":
			if !c.steered {
				c.t.Errorf("user %d was told %q", user, got.Code)
			}
		default:
			c.t.Errorf("user %d was told %q", user, got.Code)
			return true, got.Code
		}
		if c.t.Context().Err() != nil { // the test has failed already
			return true, got.Code
		}
		if time.Since(begun) > patience {
			return false, got.Code
		}
		time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	}
}

// ask sends the one request of a buyer, to the n-th process.
func (c *chaos) ask(s *chaosRound, n, user int) harness.Outcome {
	there := *s.Sale
	there.URLs = []string{*c.urls[n%len(c.urls)].Load()}
	return there.Buy(0, user, "key-"+strconv.Itoa(user))
}
