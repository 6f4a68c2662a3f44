package admission

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Gate decides about orders in Redis. All of [order.Gate] but Await, which is for who
// persists the orders to say. Close it.
type Gate struct {
	config   Config
	server   decider
	inFlight *InFlight
	vouchers vouchers
	started  time.Time
	rides    rides

	mu    sync.RWMutex
	pools map[int64]*pool // by voucher

	// working are the goroutines of pools and lines. Once closing, no more are started.
	starting sync.RWMutex
	working  sync.WaitGroup
	closing  context.Context
	cancel   context.CancelFunc
}

// decider is what a line needs of Redis; [server] is the one there is.
type decider interface {
	decide(ctx context.Context, c *call) (answer, error)
	states(ctx context.Context, buckets []admkey.Keys) []state
	give(ctx context.Context, keys admkey.Keys, epoch int64, to int, more bool) (entry, error)
	take(ctx context.Context, keys admkey.Keys, epoch int64, from int, total int64) (entry, error)
	shut(ctx context.Context, keys admkey.Keys, epoch int64) (int64, error)
	fill(ctx context.Context, parts []users) error
	begin(ctx context.Context, keys admkey.Keys, p part) (bool, error)
	kept(ctx context.Context, keys admkey.Keys, o order.Order) (bool, error)
}

var _ decider = (*server)(nil)

// errClosed is the reason of an [order.ErrUnavailable] after [Gate.Close].
var errClosed = errors.New("the gate is closed")

// New returns a gate, or says what is wrong with c.
func New(c Config) (*Gate, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newGate(c, newServer(c.Client).waiting(c).observed(c.Observer)), nil
}

func newGate(c Config, s decider) *Gate {
	g := &Gate{
		config: c, server: s, inFlight: NewInFlight(c.MaxInFlight),
		vouchers: vouchers{shelf: c.Shelf, remembered: c.Remembered},
		started:  time.Now(), pools: make(map[int64]*pool),
	}
	g.closing, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close lets batches that are under way come to their end, which takes no longer than
// [Config.Patience], refuses all others, and waits.
func (g *Gate) Close() error {
	g.starting.Lock()
	g.cancel()
	g.starting.Unlock()
	g.working.Wait()
	return nil
}

// spawn runs work in a goroutine that Close waits for, and says whether it did.
func (g *Gate) spawn(work func()) bool {
	g.starting.RLock()
	defer g.starting.RUnlock()
	if g.closing.Err() != nil {
		return false
	}
	g.working.Go(work)
	return true
}

// Admit implements the method of [order.Gate]. A repetition of an order that was
// accepted is known as such where Redis is asked; who repeats one has to call
// [Gate.Lookup] first, since a voucher that is sold out, or over, is known without.
//
// If ctx ends while the order waits in its line, it is taken out: at once where it has
// waited for longer than a moment, else when its batch would be sent. Once it has been
// sent, the outcome is waited for though ctx may end: it is bounded by [Config.Patience],
// and nothing a buyer is told before would be true.
func (g *Gate) Admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	err := g.admit(ctx, v, o)
	g.config.Observer.decided(err)
	return err
}

func (g *Gate) admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	if !g.inFlight.Enter() {
		return fmt.Errorf("%w: %d wait for an answer", order.ErrOverloaded, g.config.MaxInFlight)
	}
	defer g.inFlight.Leave()
	l, now := g.pool(v).line(o.UserID), g.now()
	if err := l.marked(now); err != nil {
		return err
	}
	r := g.rides.get(ctx, o)
	r.asked = now
	err := l.take(r)
	g.rides.put(r)
	return err
}

// Open makes a voucher ready before the first buyer comes, and waits until it is. The
// error is ctx's, [voucher.ErrNotFound], or [order.ErrUnavailable] once the gate closes.
func (g *Gate) Open(ctx context.Context, v *voucher.Voucher) error {
	for _, l := range g.pool(v).lines {
		if err := l.ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ready waits until the line's bucket is open.
func (l *line) ready(ctx context.Context) error {
	for {
		switch _, err := l.opened(ctx, untilItIs); {
		case err == nil || errors.Is(err, voucher.ErrNotFound):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, errOpening):
			return unavailable(err)
		}
	}
}

// untilItIs is longer than anybody waits.
const untilItIs = 1000 * time.Hour

// pool finds or makes the pool of a voucher.
func (g *Gate) pool(v *voucher.Voucher) *pool {
	if p := g.known(v.ID); p != nil {
		return p
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.pools[v.ID]
	if p == nil {
		p = newPool(g, v)
		g.pools[v.ID] = p
	}
	return p
}

// known is the pool of a voucher that was asked for before, or nil.
func (g *Gate) known(voucherID int64) *pool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.pools[voucherID]
}

// all lists the pools there are.
func (g *Gate) all() []*pool {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Collect(maps.Values(g.pools))
}

// now is a clock that never steps back, for what is measured against Redis' clock.
func (g *Gate) now() time.Duration { return time.Since(g.started) }
