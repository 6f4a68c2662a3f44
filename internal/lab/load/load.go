// Package load sends the orders of many buyers to the API processes of one machine, and
// records the answers.
//
// It is a closed loop: a fixed number of buyers is served at once, and when one has its
// answer, the next one comes. The same seed gives the same buyers in the same order at the
// same times, as far as the machine is fast enough.
//
// It connects to loopback addresses only.
package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// DefaultConcurrency is the default of [Load].Concurrency.
const DefaultConcurrency = 64

// Load says how many buyers come, and when.
type Load struct {
	// Buyers is how many come. Their user ids are consecutive from First (default 1).
	Buyers int
	First  int64
	// Requests is how many each buyer sends, all at the same moment and to different instances
	// if possible. Default 1.
	Requests int
	// Concurrency is how many buyers are served at once. The first ones start together, on one
	// signal. Default [DefaultConcurrency].
	Concurrency int
	// Seed decides the order of the buyers and their times.
	Seed int64
	// Duration is how long new buyers come; the rest does not come. 0: until all have come.
	Duration time.Duration
	// Spread is the time over which arrivals are spread randomly. 0: each comes as soon as it
	// can be served.
	Spread time.Duration
	// Retries is how often a buyer tries again that is told "busy", each time after
	// RetryAfter.
	Retries    int
	RetryAfter time.Duration
}

// Validate reports what is wrong with a load.
func (l Load) Validate() error {
	if l.Buyers < 1 {
		return fmt.Errorf("load: %d buyers", l.Buyers)
	}
	if min(l.Requests, l.Concurrency, l.Retries) < 0 || l.First < 0 {
		return errors.New("load: a number is negative")
	}
	if min(l.Duration, l.Spread, l.RetryAfter) < 0 {
		return errors.New("load: a duration is negative")
	}
	return nil
}

func (l Load) withDefaults() Load {
	l.First = cmp.Or(l.First, 1)
	l.Requests = cmp.Or(l.Requests, 1)
	l.Concurrency = min(cmp.Or(l.Concurrency, DefaultConcurrency), l.Buyers)
	return l
}

// Target is an API process.
type Target struct {
	Name string
	URL  string // http://127.0.0.1:port
}

// buyer is one buyer: its position, its user id and its arrival time.
type buyer struct {
	index int
	user  int64
	after time.Duration
}

// arrivals returns the buyers in order: a permutation and offsets that only the seed decides.
func (l Load) arrivals() []buyer {
	chance := rand.New(rand.NewPCG(uint64(l.Seed), 0x6c6f6164)) // the second word separates it from other uses of the seed
	crowd := make([]buyer, l.Buyers)
	for place, who := range chance.Perm(l.Buyers) {
		crowd[place] = buyer{index: place, user: l.First + int64(who)}
	}
	if l.Spread > 0 {
		offsets := make([]time.Duration, l.Buyers)
		for i := range offsets {
			offsets[i] = time.Duration(chance.Int64N(int64(l.Spread)))
		}
		slices.Sort(offsets)
		for i := range crowd {
			crowd[i].after = offsets[i]
		}
	}
	return crowd
}

// Run sends the orders of a load for a voucher, to each target in turn, and returns when all
// are answered. If ctx ends earlier, it cancels the pending requests and returns the answers
// so far, with the error of ctx.
func (c *Client) Run(ctx context.Context, targets []Target, voucher int64, l Load) (*Outcome, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, errors.New("load: there is nobody to buy from")
	}
	l = l.withDefaults()
	r := &run{client: c, targets: targets, voucher: voucher, load: l, start: make(chan struct{})}
	coming := make(chan buyer)
	var crowd sync.WaitGroup
	for range l.Concurrency {
		crowd.Go(func() {
			<-r.start
			for b := range coming {
				r.serve(ctx, b)
			}
		})
	}
	r.began = time.Now()
	close(r.start)
	r.feed(ctx, coming)
	close(coming)
	crowd.Wait()
	return newOutcome(r.answers, time.Since(r.began)), ctx.Err()
}

// run is the state of one load.
type run struct {
	client  *Client
	targets []Target
	voucher int64
	load    Load
	began   time.Time
	start   chan struct{} // closed when the first buyers may start

	mu      sync.Mutex
	answers []Answer
}

// feed passes the buyers on, one after the other.
func (r *run) feed(ctx context.Context, coming chan<- buyer) {
	var over <-chan time.Time
	if r.load.Duration > 0 {
		timer := time.NewTimer(r.load.Duration)
		defer timer.Stop()
		over = timer.C
	}
	for _, b := range r.load.arrivals() {
		if r.load.Duration > 0 && b.after >= r.load.Duration {
			return
		}
		select {
		case coming <- b:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// serve sends the requests of a buyer at its time.
func (r *run) serve(ctx context.Context, b buyer) {
	if !sleep(ctx, time.Until(r.began.Add(b.after))) {
		return
	}
	var all sync.WaitGroup
	together := make(chan struct{})
	for i := range r.load.Requests {
		all.Go(func() {
			<-together
			r.order(ctx, b, r.targets[(b.index*r.load.Requests+i)%len(r.targets)])
		})
	}
	close(together)
	all.Wait()
}

// order sends one request, and retries it as the load says.
func (r *run) order(ctx context.Context, b buyer, at Target) {
	for try := 0; ; try++ {
		a := r.client.Buy(ctx, at, r.voucher, b.user)
		a.Try = try
		r.mu.Lock()
		r.answers = append(r.answers, a)
		r.mu.Unlock()
		if a.Code != Busy || try == r.load.Retries || !sleep(ctx, r.load.RetryAfter) {
			return
		}
	}
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
