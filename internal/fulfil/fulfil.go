package fulfil

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/order"
)

// Fulfiller writes accepted orders into the database while [Fulfiller.Run] runs. It is
// safe for use by several goroutines.
type Fulfiller struct {
	config Config
	inbox  inbox
	bell   *bell

	// watched are the streams that are read. It is replaced as a whole, under mu.
	mu      sync.Mutex
	watched atomic.Pointer[[]*stream]
	// places are theirs, under mu.
	places map[place]bool
}

// New returns an error where something is missing or cannot work. It does not talk to
// Redis yet.
func New(c Config) (*Fulfiller, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	return newFulfiller(c, newStreams(c.Client)), nil
}

func newFulfiller(c Config, in inbox) *Fulfiller {
	f := &Fulfiller{config: c, inbox: in, bell: newBell(c.Client), places: map[place]bool{}}
	f.watched.Store(&[]*stream{})
	return f
}

// Run works until ctx ends. Then it reads no more, finishes the batches that were begun,
// acknowledges them, leaves the consumer group and returns.
func (f *Fulfiller) Run(ctx context.Context) {
	// What was begun outlives ctx, by FinishTimeout at most.
	work, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	unhook := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(f.config.FinishTimeout, giveUp)
		context.AfterFunc(work, func() { timer.Stop() })
	})
	defer unhook()

	// Whoever waits for an order hears of the last batch too.
	listening, deafen := context.WithCancel(context.WithoutCancel(ctx))
	var ears sync.WaitGroup
	defer ears.Wait()
	defer deafen()
	ears.Go(func() { f.bell.listen(listening) })

	f.discover(ctx, true)
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { f.keepDiscovering(ctx) })
	for n := range f.config.Workers {
		w := newWorker(f, n)
		workers.Go(func() { w.run(ctx, work) })
	}
}

// Watch has a voucher's streams read from now on, which without it begins when the next
// look at the database finds the voucher.
func (f *Fulfiller) Watch(ctx context.Context, sale order.Sale) error {
	var failed error
	for _, s := range streamsOf(f.config.Prefix, sale) { // one that fails does not keep back the others
		failed = cmp.Or(failed, f.read(ctx, s))
	}
	return failed
}

func (f *Fulfiller) read(ctx context.Context, s *stream) error {
	if f.reads(s) {
		return nil
	}
	if err := f.inbox.prepare(ctx, s); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.places[s.place()] {
		f.places[s.place()] = true
		f.watch(append(slices.Clone(*f.watched.Load()), s))
	}
	return nil
}

func (f *Fulfiller) watch(all []*stream) { f.watched.Store(&all) }

func (f *Fulfiller) reads(s *stream) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.places[s.place()]
}

// fullEvery is every how many looks all vouchers are looked at, also those whose sale
// was over long ago: what is in their streams would be noticed by nobody else.
const fullEvery = 600

func (f *Fulfiller) keepDiscovering(ctx context.Context) {
	tick := time.NewTicker(f.config.DiscoverEvery)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.discover(ctx, n%fullEvery == 0)
		}
	}
}

// discover finds out which streams are to be read: those of the vouchers on sale, and
// those that still hold something.
func (f *Fulfiller) discover(ctx context.Context, all bool) {
	lengths, oldest, err := f.inbox.lengths(ctx, *f.watched.Load())
	if err != nil {
		f.complain(ctx, "the length of the streams is not known", err)
	} else {
		var entries int64
		for _, n := range lengths {
			entries += n
		}
		f.config.Observer.backlog(entries, oldest)
	}

	sales, err := f.config.Shelf.AdmissionSales(ctx, time.Now().Add(-f.config.KeepFor))
	if err != nil {
		f.complain(ctx, "the vouchers on sale are not known", err)
		return
	}
	if all {
		sales = append(sales, f.leftBehind(ctx)...)
	}
	wanted := make(map[int64]bool, len(sales))
	for _, sale := range sales {
		wanted[sale.VoucherID] = true
		if err := f.Watch(ctx, sale); err != nil {
			f.complain(ctx, "a stream cannot be read", err)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watch(slices.DeleteFunc(slices.Clone(*f.watched.Load()), func(s *stream) bool {
		n, counted := lengths[s]
		over := counted && n == 0 && !wanted[s.voucher]
		if over {
			delete(f.places, s.place())
		}
		return over
	}))
}

// leftBehind lists the vouchers, of all there ever were, whose streams are not empty.
func (f *Fulfiller) leftBehind(ctx context.Context) []order.Sale {
	sales, err := f.config.Shelf.AdmissionSales(ctx, time.Unix(0, 0)) // no sale is older
	if err != nil {
		f.complain(ctx, "the vouchers that were on sale are not known", err)
		return nil
	}
	var left []order.Sale
	for sales := range slices.Chunk(sales, 1000) {
		var asked []*stream
		for _, sale := range sales {
			asked = append(asked, streamsOf(f.config.Prefix, sale)...)
		}
		lengths, _, err := f.inbox.lengths(ctx, asked)
		if err != nil {
			f.complain(ctx, "the length of the streams is not known", err)
		}
		holds := make(map[int64]bool)
		for s, n := range lengths {
			if n > 0 {
				holds[s.voucher] = true
			}
		}
		left = append(left, slices.DeleteFunc(slices.Clone(sales), func(sale order.Sale) bool { return !holds[sale.VoucherID] })...)
	}
	return left
}

func (f *Fulfiller) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		f.config.Log.LogAttrs(ctx, slog.LevelWarn, "fulfil: "+what, slog.Any("error", err))
	}
}
