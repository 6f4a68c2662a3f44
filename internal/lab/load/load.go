// Package load is the crowd of buyers: it sends the orders of many of them to the API
// processes of one machine and notes what each was told.
//
// It is a closed loop. So many buyers are served at once; when one has the answer, the
// next one comes. The same seed gives the same buyers in the same order, at the same
// moments as far as the machine is fast enough for them.
//
// It talks to this machine only: to an address that is not loopback no connection is
// made.
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

// DefaultAtOnce is how many buyers are served at once where a [Load] does not say.
const DefaultAtOnce = 64

// Load says who comes, and when.
type Load struct {
	// Buyers is how many come, each under a user id of their own, from First on
	// (default 1).
	Buyers int
	First  int64
	// Requests is how many each buyer sends, all at the same moment and to different
	// instances as far as there are several. Default 1.
	Requests int
	// AtOnce is how many buyers are served at once. The first so many come together,
	// on one signal. Default [DefaultAtOnce].
	AtOnce int
	// Seed decides in which order the buyers come, and when.
	Seed int64
	// For is how long new buyers come: the others stay away. 0: until all were there.
	For time.Duration
	// Spread is the time over which their arrivals are spread, by chance. 0: each
	// comes as soon as it can be served.
	Spread time.Duration
	// Retries is how often a buyer who is told "busy" comes again, RetryAfter later.
	Retries    int
	RetryAfter time.Duration
}

// Validate says what is wrong with a load.
func (l Load) Validate() error {
	if l.Buyers < 1 {
		return fmt.Errorf("load: %d buyers", l.Buyers)
	}
	if min(l.Requests, l.AtOnce, l.Retries) < 0 || l.First < 0 {
		return errors.New("load: a number is negative")
	}
	if min(l.For, l.Spread, l.RetryAfter) < 0 {
		return errors.New("load: a duration is negative")
	}
	return nil
}

func (l Load) withDefaults() Load {
	l.First = cmp.Or(l.First, 1)
	l.Requests = cmp.Or(l.Requests, 1)
	l.AtOnce = min(cmp.Or(l.AtOnce, DefaultAtOnce), l.Buyers)
	return l
}

// Target is an API process.
type Target struct {
	Name string
	URL  string // http://127.0.0.1:port
}

// buyer is one of the crowd: how many came before, who it is and when it comes.
type buyer struct {
	place int
	user  int64
	after time.Duration
}

// crowd is who comes, in order: a permutation and offsets that only the seed decides.
func (l Load) crowd() []buyer {
	chance := rand.New(rand.NewPCG(uint64(l.Seed), 0x6c6f6164)) // the second word only tells it from other uses of the seed
	crowd := make([]buyer, l.Buyers)
	for place, who := range chance.Perm(l.Buyers) {
		crowd[place] = buyer{place: place, user: l.First + int64(who)}
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

// Run sends the orders of a load for a voucher, in turn to each target, and returns
// when all are answered. When ctx ends before, it gives up the requests under way and
// returns what there is, with the error of ctx.
func (c *Client) Run(ctx context.Context, targets []Target, voucher int64, l Load) (*Outcome, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, errors.New("load: there is nobody to buy from")
	}
	l = l.withDefaults()
	r := &run{client: c, targets: targets, voucher: voucher, load: l, signal: make(chan struct{})}
	coming := make(chan buyer)
	var crowd sync.WaitGroup
	for range l.AtOnce {
		crowd.Go(func() {
			<-r.signal
			for b := range coming {
				r.serve(ctx, b)
			}
		})
	}
	r.began = time.Now()
	close(r.signal)
	r.admit(ctx, coming)
	close(coming)
	crowd.Wait()
	return newOutcome(r.answers, time.Since(r.began)), ctx.Err()
}

// run is one load at work.
type run struct {
	client  *Client
	targets []Target
	voucher int64
	load    Load
	began   time.Time
	signal  chan struct{} // closed when the first may go

	mu      sync.Mutex
	answers []Answer
}

// admit lets the buyers in, one after the other.
func (r *run) admit(ctx context.Context, coming chan<- buyer) {
	var over <-chan time.Time
	if r.load.For > 0 {
		timer := time.NewTimer(r.load.For)
		defer timer.Stop()
		over = timer.C
	}
	for _, b := range r.load.crowd() {
		if r.load.For > 0 && b.after >= r.load.For {
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

// serve sends what a buyer sends, at its moment.
func (r *run) serve(ctx context.Context, b buyer) {
	if !sleep(ctx, time.Until(r.began.Add(b.after))) {
		return
	}
	var all sync.WaitGroup
	together := make(chan struct{})
	for i := range r.load.Requests {
		all.Go(func() {
			<-together
			r.ask(ctx, b, r.targets[(b.place*r.load.Requests+i)%len(r.targets)])
		})
	}
	close(together)
	all.Wait()
}

// ask sends one request, and again as long as the buyer is patient.
func (r *run) ask(ctx context.Context, b buyer, at Target) {
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

// sleep reports false where ctx ended before.
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
