package durability

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// A planned failover makes a replica the primary although the old one is healthy, and redirects the connections. The
// voucher is on sale again. No order that was accepted before is lost. No order that is accepted meanwhile is lost
// either, if a buyer is told of an order only when the replica has it. Chaos promotes by hand, too.
func TestPlannedFailover(t *testing.T) {
	t.Parallel()
	planned(t, promoteBySentinel(t), 4, 1, 1, nil)
}

// reopenLimit is how long a planned failover may keep any bucket of a voucher shut.
const reopenLimit = 3 * time.Second

func TestSoakPlannedFailover(t *testing.T) {
	testkit.Soak(t)
	figures := harness.NewFigures(t)
	const rounds = 20
	for _, buckets := range []int{1, 4} {
		for _, wait := range []int{0, 1} {
			name := fmt.Sprintf("buckets %d, wait for %d replicas", buckets, wait)
			t.Run("by hand, "+name, func(t *testing.T) { planned(t, promoteByHand(t), buckets, wait, rounds, figures) })
			t.Run("sentinel, "+name, func(t *testing.T) { planned(t, promoteBySentinel(t), buckets, wait, rounds, figures) })
		}
	}
}

// promotion is a Redis whose replica can be promoted.
type promotion struct {
	where   harness.Stores
	promote func() // and returns when the old primary follows the new one
}

// promoteByHand returns a primary behind an address that is redirected to the promoted replica.
func promoteByHand(t *testing.T) promotion {
	t.Helper()
	r := harness.NewReplicated(t)
	acknowledges(t, r.Primary.Client(t), 1)
	return promotion{where: harness.Stores{Redis: []string{r.Addr()}}, promote: func() { r.Promote(replicaLag) }}
}

// replicaLag is how far the promoted replica is behind: entries that were acknowledged on the old primary are still
// pending on the new one.
const replicaLag = 50 * time.Millisecond

func promoteBySentinel(t *testing.T) promotion {
	t.Helper()
	sentinel := testkit.RedisSentinel(t)
	return promotion{where: harness.Stores{Redis: sentinel.Addrs}.With("SECKILL_REDIS_MASTER=" + sentinel.MasterName), promote: sentinel.Failover}
}

// planned sells while replicas are promoted, one after the other, and checks the sale.
func planned(t *testing.T, redis promotion, buckets, wait, rounds int, figures *harness.Figures) {
	t.Helper()
	where := redis.where.With(fmt.Sprintf("SECKILL_REDIS_WAIT_REPLICAS=%d", wait), "SECKILL_LOG_LEVEL=warn")
	where.DB = testkit.MariaDB(t)
	apis := []harness.Process{harness.Start(t, where), harness.Start(t, where)}
	const stock = 1_000_000 // never sold out, however long a failover takes
	s := &steadySale{
		Sale:     harness.OpenSale(t, stock, fmt.Sprintf(`{"flow":"admission","buckets":%d}`, buckets), apis...),
		accepted: make([][]time.Time, buckets), orders: map[string]accepted{}, codes: map[string]int{},
	}
	s.Buckets, s.Client.Timeout = buckets, 5*time.Second
	stop := s.begin()
	s.waitUntilOpen(time.Now())
	var unsafe []window
	for n := range rounds {
		begun := time.Now()
		redis.promote()
		led := time.Now()
		s.waitUntilOpen(led)
		gap := s.longestGap(begun)
		figures.Took("not on sale: "+t.Name(), gap, reopenLimit)
		t.Logf("failover %d: %v to promote and lead over; not on sale for %v", n+1, led.Sub(begun).Round(time.Millisecond), gap.Round(time.Millisecond))
		if wait == 0 {
			unsafe = append(unsafe, window{begun, led})
		}
	}
	stop()
	s.check(unsafe)
}

// window is a time in which the old primary accepts orders that the new one does not have.
type window struct{ from, to time.Time }

// check checks that no accepted order is missing, except those that were accepted in a window.
func (s *steadySale) check(unsafe []window) {
	s.T.Helper()
	now := s.AtRest(0)
	if now.Oversold != 0 || now.DuplicateOrders != 0 || now.Unaccounted != 0 {
		s.T.Errorf("the sale is wrong: %+v", now)
	}
	states, lost := map[string]int{}, 0
	for id, p := range s.orders {
		state := s.StatusOf(p.user, id, p.user)
		states[state]++
		switch {
		case state == "confirmed":
		case slices.ContainsFunc(unsafe, func(w window) bool { return p.at.After(w.from) && p.at.Before(w.to) }):
			lost++
		default:
			s.T.Errorf("order %s was accepted and is %q", id, state)
		}
	}
	s.T.Logf("%d orders were accepted: %v, %d of them lost with the old primary; answers %v; %+v", len(s.orders), states, lost, s.codes, now)
}

// steadySale is a voucher that new users order all the time.
type steadySale struct {
	*harness.Sale
	users atomic.Int64

	mu       sync.Mutex
	accepted [][]time.Time // by bucket
	orders   map[string]accepted
	codes    map[string]int
}

// accepted is an order that was accepted.
type accepted struct {
	user int
	at   time.Time
}

const (
	steadyBuyers = 16
	steadyPause  = 40 * time.Millisecond // some 400 orders a second
	// steadyAgain is for how long each bucket takes orders after a failover before it counts as over.
	steadyAgain = time.Second
)

// begin sends orders of new users until stop is called.
func (s *steadySale) begin() (stop func()) {
	var buyers sync.WaitGroup
	over := make(chan struct{})
	for range steadyBuyers {
		buyers.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(steadyPause/2 + rand.N(steadyPause)):
					s.one(int(s.users.Add(1)))
				}
			}
		})
	}
	return func() {
		close(over)
		buyers.Wait()
	}
}

func (s *steadySale) one(user int) {
	got := s.Buy(user, user, "")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[got.Code]++
	if got.Order != "" {
		now, bucket := time.Now(), ledger.BucketOf(int64(user), s.Buckets)
		s.orders[got.Order] = accepted{user, now}
		s.accepted[bucket] = append(s.accepted[bucket], now)
	}
}

// waitUntilOpen waits until every bucket accepts orders.
func (s *steadySale) waitUntilOpen(since time.Time) {
	s.T.Helper()
	testkit.Until(s.T, "every bucket takes orders again", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, times := range s.accepted {
			first, _ := slices.BinarySearchFunc(times, since, time.Time.Compare)
			if len(times) == first || times[len(times)-1].Sub(times[first]) < steadyAgain {
				return false
			}
		}
		return true
	})
}

// longestGap is the longest time since a moment in which any bucket accepted no order.
func (s *steadySale) longestGap(since time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	var longest time.Duration
	for _, times := range s.accepted {
		before := since
		for _, at := range times {
			if at.After(since) {
				longest, before = max(longest, at.Sub(before)), at
			}
		}
	}
	return longest
}
