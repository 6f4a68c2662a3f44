package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// Rounds of a sale by admission over two processes, in each of which processes and
// servers are killed or stopped at random while buyers come. Every buyer repeats his
// request, under one Idempotency-Key, until he has an answer. In the end nothing is
// lost, nothing is there twice, nothing is oversold. Every second voucher is split into
// buckets.
//
// A round does not wait until the one before is at rest: what a process left behind in
// it is taken over while others die. By the end of the round after it, it has to come to
// rest, and its sums to be right; in the end all rounds are looked at order by order.
// SECKILL_TEST_ROUNDS is how many (default 3),
// SECKILL_TEST_SEED chooses the victims; when they die, in terms of what the service is
// doing, is chance.
func TestChaos(t *testing.T) {
	rounds := number(t, "SECKILL_TEST_ROUNDS", 3)
	if testing.Short() {
		rounds = 1
	}
	seed := number(t, "SECKILL_TEST_SEED", int(time.Now().UnixNano()%1_000_000))
	t.Logf("SECKILL_TEST_ROUNDS=%d SECKILL_TEST_SEED=%d", rounds, seed)
	c := openChaos(t, uint64(seed))
	begun := time.Now()
	for n := range rounds {
		c.round()
		if n > 0 {
			c.balanced(n, c.sales[n-1])
		}
		if (n+1)%10 == 0 {
			t.Logf("%d rounds, %v, %v", n+1, c.tally(), time.Since(begun).Round(time.Second))
		}
	}
	c.stragglers.Wait()
	orders := 0
	for n, s := range c.sales {
		c.right(n+1, s)
		orders += len(s.orders)
	}
	t.Logf("%d rounds in %v: %v, of these %d before all was sold; %d orders, %d buyers, answers %v",
		rounds, time.Since(begun).Round(time.Second), c.tally(), c.during, orders, c.users.Load(), c.answers())
	for i, p := range c.apis {
		if err := p.Stop(); err != nil {
			t.Errorf("process %d: %v", i, err)
		}
	}
}

// number reads a setting of a test.
func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", name, os.Getenv(name))
	}
	return n
}

// chaos is a service, and who makes it suffer.
type chaos struct {
	t       *testing.T
	rng     *rand.Rand
	mariadb *testkit.SQLServer
	redis   *testkit.RedisServer
	where   servers
	apis    [2]process
	urls    [2]atomic.Pointer[string] // of apis, for the buyers
	client  *http.Client

	sales      []*sale
	users      atomic.Int64
	stragglers sync.WaitGroup
	struck     map[string]int
	during     int // strikes before all was sold
}

func openChaos(t *testing.T, seed uint64) *chaos {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * connections}
	t.Cleanup(transport.CloseIdleConnections)
	c := &chaos{
		t: t, rng: rand.New(rand.NewPCG(seed, 0)), struck: map[string]int{},
		mariadb: testkit.NewMariaDB(t, "--innodb-flush-log-at-trx-commit=1"),
		redis:   testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always"),
		// A buyer whose process stands still tries the other one.
		client: &http.Client{Transport: transport, Timeout: 2 * time.Second},
	}
	// Who is stopped is sometimes stopped for longer than the others wait.
	c.where = servers{db: c.mariadb.Database(t), redis: []string{c.redis.Addr()}}.with("SECKILL_CLAIM_IDLE=2s")
	t.Cleanup(c.stragglers.Wait)
	for i := range c.apis {
		c.start(i)
	}
	return c
}

func (c *chaos) start(i int) {
	c.t.Helper()
	p := startProcess(c.t, c.where)
	c.apis[i] = p
	c.urls[i].Store(&p.url)
}

// sale is one round's voucher.
type sale struct {
	*shop
	stock int
	over  atomic.Bool // somebody was told that it is sold out

	mu     sync.Mutex
	orders map[int]string // by user
	codes  map[string]int
}

// strikes is how many there are in a round.
const strikes = 3

func (c *chaos) round() {
	c.t.Helper()
	waitReady(c.t, c.apis[:]...)
	s := &sale{stock: 200 + c.rng.IntN(800), orders: map[int]string{}, codes: map[string]int{}}
	buckets := 1
	if len(c.sales)%2 == 1 {
		buckets = 4
	}
	s.shop = openShop(c.t, s.stock, fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets), c.apis[:]...)
	s.client, s.buckets = c.client, buckets
	c.sales = append(c.sales, s)
	var buyers sync.WaitGroup
	calm := make(chan struct{})
	for range connections {
		buyers.Go(func() { c.rush(s, calm) })
	}
	for range strikes {
		time.Sleep(time.Duration(20+c.rng.IntN(400)) * time.Millisecond) // at a random moment of the load
		if !s.over.Load() {
			c.during++
		}
		c.strike()
	}
	close(calm)
	buyers.Wait()
	for i, p := range c.apis {
		select {
		case <-p.Done():
			c.t.Fatalf("process %d ended by itself: %v\n%s", i, p.Wait(), p.Output())
		default:
		}
	}
}

// The victims.
const (
	victimRedis = iota
	victimMariaDB
	victimA
	victimB
	victims
)

// names are for the tally.
var names = [victims]string{"Redis", "MariaDB", "API", "API"}

// strike kills one or two, or stops one for a while.
func (c *chaos) strike() {
	c.t.Helper()
	hit := c.rng.Perm(victims)[:1]
	switch c.rng.IntN(10) {
	case 0, 1: // two at once
		hit = c.rng.Perm(victims)[:2]
	case 2, 3:
		c.struck["SIGSTOP "+names[hit[0]]]++
		v := c.stoppable(hit[0])
		v.Pause()
		time.Sleep(time.Duration(50+c.rng.IntN(2500)) * time.Millisecond) // up to longer than anybody's patience
		v.Resume()
		return
	}
	slices.Sort(hit) // a process needs its servers to start
	if len(hit) > 1 {
		c.struck["two at once"]++
	}
	for _, v := range hit {
		c.struck["SIGKILL "+names[v]]++
		switch v {
		case victimRedis:
			c.redis.Kill()
		case victimMariaDB:
			c.mariadb.Kill()
		default:
			c.apis[v-victimA].Kill()
		}
	}
	for _, v := range hit {
		switch v {
		case victimRedis:
			c.redis.Restart()
		case victimMariaDB:
			c.mariadb.Restart()
		default:
			c.start(v - victimA)
		}
	}
}

func (c *chaos) stoppable(victim int) interface {
	Pause()
	Resume()
} {
	switch victim {
	case victimRedis:
		return c.redis
	case victimMariaDB:
		return c.mariadb
	}
	return c.apis[victim-victimA]
}

// tally says who was struck how often.
func (c *chaos) tally() string {
	return fmt.Sprintf("%d strikes %v", strikes*len(c.sales), c.struck)
}

func (c *chaos) answers() map[string]int {
	all := map[string]int{}
	for _, s := range c.sales {
		for code, n := range s.codes {
			all[code] += n
		}
	}
	return all
}

// rush is one connection: a buyer after the other, until it is calm and all is sold.
func (c *chaos) rush(s *sale, calm <-chan struct{}) {
	for c.t.Context().Err() == nil {
		user := int(c.users.Add(1))
		if answered, _ := c.insist(s, user, time.Second); !answered {
			// The next one need not wait for him.
			c.stragglers.Go(func() {
				if answered, last := c.insist(s, user, 2*time.Minute); !answered {
					c.t.Errorf("user %d never had an answer, but %q", user, last)
				}
			})
		}
		select {
		case <-calm:
			if s.over.Load() {
				return
			}
		default:
		}
		time.Sleep(rand.N(40 * time.Millisecond)) // as buyers come
	}
}

// insist asks until there is an answer, or for so long.
func (c *chaos) insist(s *sale, user int, patience time.Duration) (answered bool, last string) {
	for begun, n := time.Now(), user; ; n++ {
		got := c.ask(s, n, user)
		s.mu.Lock()
		s.codes[got.code]++
		if got.order != "" {
			s.orders[user] = got.order
		}
		s.mu.Unlock()
		switch got.code {
		case "accepted", "created": // the latter where a repetition finds it confirmed
			return true, got.code
		case "sold_out":
			s.over.Store(true)
			return true, got.code
		case "network", "unavailable", "busy":
		default:
			c.t.Errorf("user %d was told %q", user, got.code)
			return true, got.code
		}
		if c.t.Context().Err() != nil { // the test has failed already
			return true, got.code
		}
		if time.Since(begun) > patience {
			return false, got.code
		}
		time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	}
}

// ask sends a buyer's one request, to the n-th process.
func (c *chaos) ask(s *sale, n, user int) outcome {
	there := *s.shop
	there.urls = []string{*c.urls[n%len(c.urls)].Load()}
	return there.buy(0, user, "key-"+strconv.Itoa(user))
}
