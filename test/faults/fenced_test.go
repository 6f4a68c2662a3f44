package faults

import (
	"maps"
	"sync"
	"testing"
	"time"

	"seckill/test/harness"
)

// buyerLoop sends orders, each of a new user, until the stock is gone.
type buyerLoop struct {
	sale *harness.Sale
	all  sync.WaitGroup

	mu     sync.Mutex
	users  int
	codes  map[string]int
	orders map[string]int
	sold   []int // by each process
}

// start starts n buyers for each process.
func (c *buyerLoop) start(n int) {
	c.codes, c.orders, c.sold = map[string]int{}, map[string]int{}, make([]int, len(c.sale.URLs))
	for i := range c.sale.URLs {
		for range n {
			c.all.Go(func() {
				for c.next(i).Code != "sold_out" {
				}
			})
		}
	}
}

func (c *buyerLoop) next(i int) harness.Outcome {
	c.mu.Lock()
	c.users++
	user := c.users
	c.mu.Unlock()
	got := c.sale.Buy(i, user, "")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.codes[got.Code]++
	if got.Order != "" {
		c.orders[got.Order]++
		c.sold[i]++
	}
	return got
}

// await waits until the i-th process has sold n more.
func (c *buyerLoop) await(t *testing.T, i, n int) {
	t.Helper()
	sold := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.sold[i]
	}
	before := sold()
	for end := time.Now().Add(harness.Patience); sold() < before+n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d sold %d and not %d", i, sold()-before, n)
		}
	}
}

// A sale by two processes. Three times, one of them is paused (SIGSTOP) while it holds the lock, until its lease
// has expired and the other one continues. What it still writes when it resumes has an outdated fencing token.
func TestFencedSaleWithAStoppedProcess(t *testing.T) {
	t.Parallel()
	const (
		stock  = 2000
		lease  = 400 * time.Millisecond
		policy = `{"lock":"fenced","scope":"voucher","stock":"fenced","lock_ttl_ms":400,"lock_wait_ms":20000}`
		buyers = 8 // for each process
	)
	s := harness.NewStores(t)
	a, b := harness.Start(t, s), harness.Start(t, s)
	sale := harness.OpenSale(t, stock, policy, a, b)
	c := &buyerLoop{sale: sale}
	c.start(buyers)
	stops := 0
	for holding := 0; holding < 3; stops++ {
		c.await(t, 0, 5)
		a.Pause()
		stopped := time.Now()
		c.await(t, 1, buyers+1) // those may have been answered already; that one was not
		waited := time.Since(stopped)
		a.Resume()
		t.Logf("the other process went on %v after the stop", waited.Round(time.Millisecond))
		if waited > lease*3/4 {
			holding++ // no other owner got the lock before its lease was over
		}
	}
	c.all.Wait()

	sale.CheckBalanced(0, c.codes, c.orders)
	if got := sale.Audit(1); got.Orders != stock || got.Stock != 0 {
		t.Errorf("%+v, want all %d sold", got, stock)
	}
	// A holder that was stopped is refused, or told to ask again; all the others get
	// a sale's ordinary answers.
	other := maps.Clone(c.codes)
	for _, code := range []string{"created", "sold_out", "busy", "unavailable"} {
		delete(other, code)
	}
	if len(other) > 0 {
		t.Errorf("answers without a reason: %v", other)
	}
	t.Logf("stopped %d times, three of them with the lock; sold by each process: %v", stops, c.sold)
}
