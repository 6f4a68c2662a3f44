package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// pool is a voucher at the gate: a line for each of its buckets, and what is done for
// all of them together. A voucher that is not split has one.
type pool struct {
	gate  *Gate
	id    int64
	sale  window
	lines []*line // by bucket

	mu   sync.Mutex // taken before a line's, never after
	door door

	// drawing has room for the one line that draws; see draw.go.
	drawing chan struct{}
	// soldOut is the mark of all lines together while nothing is left in any bucket, and
	// dry until when nobody looks again, on the gate's clock; 0 without the mark.
	soldOut mark
	dry     atomic.Int64
}

func newPool(g *Gate, v *voucher.Voucher) *pool {
	p := &pool{
		gate: g, id: v.ID, sale: window{from: v.BeginAt, to: v.EndAt},
		drawing: make(chan struct{}, 1),
		soldOut: mark{err: voucher.ErrSoldOut, every: g.config.Recheck},
	}
	for bucket := range v.Policy.Parts() {
		p.lines = append(p.lines, newLine(p, bucket))
	}
	return p
}

// line is that of a user's bucket.
func (p *pool) line(userID int64) *line { return p.lines[admkey.Bucket(userID, len(p.lines))] }

// split says that there are several buckets.
func (p *pool) split() bool { return len(p.lines) > 1 }

// bound is how many orders of one bucket may be on their way.
func (p *pool) bound() int64 {
	buckets := int64(len(p.lines))
	return (p.gate.config.MaxPending + buckets - 1) / buckets
}

// look asks Redis how all buckets stand, and what time it is there.
func (p *pool) look(ctx context.Context) []state {
	return p.lookAt(ctx, storeTimeout, p.lines)
}

// lookAt is look for some of the buckets. What it returns has all of them, the others
// with errSilent.
func (p *pool) lookAt(ctx context.Context, timeout time.Duration, some []*line) []state {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	buckets := make([]admkey.Keys, len(some))
	for i, l := range some {
		buckets[i] = l.keys
	}
	all := make([]state, len(p.lines))
	for i := range all {
		all[i].err = errSilent
	}
	for i, s := range p.gate.server.states(ctx, buckets) {
		l := some[i]
		all[l.bucket] = s
		heard := s.heard.Sub(p.gate.started)
		switch {
		case s.err == nil:
			l.tick(heard, s.now)
			l.silent.Store(0)
		case s.heard.Sub(asked) >= timeout: // to be refused at once costs nobody time
			l.silent.Store(int64(heard + min(maxSilent, p.gate.config.Patience/2)))
		}
	}
	return all
}

// unknown is why one of the buckets is not known; nil where all are.
func unknown(all []state) error {
	for i := range all {
		if all[i].err != nil {
			return all[i].err
		}
	}
	return nil
}

// dried marks the voucher as sold out: when it was looked at, nothing was left. The
// marks come first: whoever learns of stock takes dry for the sign that there are any.
func (p *pool) dried(looked time.Duration) {
	until := int64(looked + p.gate.config.Recheck)
	p.soldOut.next.Store(until)
	for _, l := range p.lines {
		l.refusal.Store(&p.soldOut)
	}
	p.dry.Store(until)
}

// lift takes the marks of being sold out away: there is stock.
func (p *pool) lift() {
	if !p.split() {
		p.lines[0].unmark(voucher.ErrSoldOut)
		return
	}
	if p.dry.Load() == 0 {
		return
	}
	p.dry.Store(0)
	for _, l := range p.lines {
		l.refusal.CompareAndSwap(&p.soldOut, nil)
	}
}

// idle says that nobody is at work for the voucher.
func (p *pool) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.mu.Lock()
		working := l.working
		l.mu.Unlock()
		if working {
			return false
		}
	}
	return p.door.opening == nil
}

// known lists what is known of each bucket.
func (p *pool) known() []seen {
	all := make([]seen, len(p.lines))
	for i, l := range p.lines {
		all[i] = l.knows()
	}
	return all
}

func (p *pool) standing(ctx context.Context) (order.Standing, error) {
	return p.asked(ctx, func(ctx context.Context) (order.Standing, error) { return p.gate.config.Shelf.Standing(ctx, p.id) })
}

func (p *pool) asked(ctx context.Context, ask func(context.Context) (order.Standing, error)) (order.Standing, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return ask(ctx)
}
