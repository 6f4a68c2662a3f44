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
func (p *pool) look(ctx context.Context, timeout time.Duration) []state {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	buckets := make([]admkey.Keys, len(p.lines))
	for i, l := range p.lines {
		buckets[i] = l.keys
	}
	all := p.gate.server.states(ctx, buckets)
	for i, l := range p.lines {
		if all[i].err == nil {
			l.tick(p.gate.now(), all[i].now)
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

// lift takes that mark away: there is stock.
func (p *pool) lift() {
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
