package main

import (
	"maps"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// Redis' clock is moved forwards and backwards in the middle of a sale: within its window,
// past its end, and to before its beginning. No order is lost and none sold twice; nobody
// waits for the clock to catch up; and once it is right, the sale goes on.
func TestDurabilityRedisClockJumps(t *testing.T) {
	const stock = 3000
	server, clock := testkit.NewRedisWithClock(t)
	s := servers{db: testkit.MariaDB(t), redis: []string{server.Addr()}}
	shop := openShop(t, stock, admissionPolicy, startProcess(t, s), startProcess(t, s))
	var slowest atomic.Int64
	var last atomic.Pointer[string]
	var over atomic.Bool
	orders, codes := map[string]int{}, map[string]int{}
	var mu sync.Mutex
	var next atomic.Int64
	var load sync.WaitGroup
	for range connections {
		load.Go(func() {
			for !over.Load() {
				user := int(next.Add(1))
				begun := time.Now()
				got := shop.buy(user, user, "key-"+strconv.Itoa(user))
				took := time.Since(begun)
				mu.Lock()
				slowest.Store(max(slowest.Load(), int64(took)))
				codes[got.code]++
				if got.order != "" {
					orders[got.order] = user
				}
				mu.Unlock()
				last.Store(&got.code)
				time.Sleep(80 * time.Millisecond) // some 400 a second
			}
		})
	}
	defer load.Wait()
	defer over.Store(true)
	// until waits until buyers are told a code.
	until := func(when, code string) {
		t.Helper()
		begun := time.Now()
		for deadline := begun.Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			if told := last.Load(); told != nil && *told == code {
				t.Logf("%s: %q after %v", when, code, time.Since(begun).Round(time.Millisecond))
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: nobody is told %q, but %q", when, code, *last.Load())
			}
		}
	}
	jump := func(when string, d time.Duration, code string) {
		t.Helper()
		clock.Jump(d)
		time.Sleep(200 * time.Millisecond) // what was under way is answered
		until(when, code)
		time.Sleep(300 * time.Millisecond) // and some more come
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
	t.Logf("%v; the slowest answer took %v", codes, time.Duration(slowest.Load()).Round(time.Millisecond))
	if took := time.Duration(slowest.Load()); took > 5*time.Second {
		t.Errorf("somebody waited %v", took)
	}
	_, more := shop.rush(2*stock, 1, nil)
	maps.Copy(orders, more)
	shop.allConfirmed(stock, orders)
}
