package durability

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// answerAt is an answer and the time of its request.
type answerAt struct {
	code  string
	asked time.Time
}

// The clock of Redis jumps in the middle of a sale: within the sale window, past its end, and before its beginning. No
// order is lost or sold twice, no request waits for the clock (a client gives up after a minute, and the clock jumps by
// half an hour and more), and the sale continues once the clock is right.
func TestDurabilityRedisClockJumps(t *testing.T) {
	t.Parallel()
	const stock = 1500
	server, clock := testkit.NewRedisWithClock(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}
	sale := harness.OpenSale(t, stock, harness.AdmissionPolicy, harness.Start(t, s), harness.Start(t, s))
	var last atomic.Pointer[answerAt]
	var over atomic.Bool
	orders, codes := map[string]int{}, map[string]int{}
	var mu sync.Mutex
	var next atomic.Int64
	var load sync.WaitGroup
	for range harness.Connections / 4 {
		load.Go(func() {
			for !over.Load() {
				user := int(next.Add(1))
				begun := time.Now()
				got := sale.Buy(user, user, "key-"+strconv.Itoa(user))
				mu.Lock()
				codes[got.Code]++
				if got.Order != "" {
					orders[got.Order] = user
				}
				mu.Unlock()
				last.Store(&answerAt{got.Code, begun})
				time.Sleep(80 * time.Millisecond) // some 100 a second
			}
		})
	}
	defer load.Wait()
	defer over.Store(true)
	// until waits until a request sent from now on is answered with a code, and some more follow.
	until := func(when, code string) {
		t.Helper()
		begun := time.Now()
		testkit.Until(t, when+": "+code, func() bool {
			told := last.Load()
			return told != nil && told.asked.After(begun) && told.code == code
		})
		t.Logf("%s: %q after %v", when, code, time.Since(begun).Round(time.Millisecond))
		enough := next.Load() + 25
		testkit.Until(t, "some more buyers", func() bool { return next.Load() >= enough })
	}
	jump := func(when string, d time.Duration, code string) {
		t.Helper()
		clock.Jump(d)
		until(when, code)
	}
	until("at first", "accepted")
	jump("half an hour ahead", 30*time.Minute, "accepted")
	jump("right again", 0, "accepted")
	jump("before the sale", -30*time.Minute, "sale_not_started")
	jump("right again", 0, "accepted")
	jump("past its end", 2*time.Hour, "sale_ended")
	jump("right again", 0, "accepted")
	over.Store(true)
	load.Wait()
	t.Logf("%v", codes)
	if codes["network"] > 0 {
		t.Errorf("%d requests had no answer: %v", codes["network"], codes)
	}
	_, more := sale.OrderAll(2*stock, 1, nil)
	maps.Copy(orders, more)
	sale.CheckAllConfirmed(stock, orders)
}
