package admission

import (
	"context"
	"errors"
	"fmt"
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
	lines map[int64]*line

	// working are the goroutines of lines. Once closing, no more are started.
	working sync.WaitGroup
	closing context.Context
	cancel  context.CancelFunc
}

// decider is what a line needs of Redis; [server] is the one there is.
type decider interface {
	decide(ctx context.Context, c *call) (answer, error)
	state(ctx context.Context, keys admkey.Keys) (state, error)
	shut(ctx context.Context, keys admkey.Keys, epoch int64) (int64, error)
	fill(ctx context.Context, key string, orders []order.Order) error
	begin(ctx context.Context, keys admkey.Keys, st order.Standing, from, to time.Time) (bool, error)
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
	return newGate(c, newServer(c.Client)), nil
}

func newGate(c Config, s decider) *Gate {
	g := &Gate{
		config: c, server: s, inFlight: NewInFlight(c.MaxInFlight),
		vouchers: vouchers{shelf: c.Shelf, remembered: c.Remembered},
		started:  time.Now(), lines: make(map[int64]*line),
	}
	g.closing, g.cancel = context.WithCancel(context.Background())
	return g
}

// Close lets batches that are under way come to their end, which takes no longer than
// [Config.Patience], refuses all others, and waits.
func (g *Gate) Close() error {
	g.mu.Lock()
	g.cancel()
	g.mu.Unlock()
	g.working.Wait()
	return nil
}

// spawn runs work in a goroutine that Close waits for, and says whether it did.
func (g *Gate) spawn(work func()) bool {
	g.mu.RLock()
	defer g.mu.RUnlock()
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
// If ctx ends before its batch is sent, the order is taken out when that would be. Once
// it has been sent, the outcome is waited for though ctx may end: it is bounded by
// [Config.Patience], and nothing a buyer is told before would be true.
func (g *Gate) Admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	asked := g.now()
	err := g.admit(ctx, v, o, asked)
	g.config.Observer.decided(g.now()-asked, err)
	return err
}

func (g *Gate) admit(ctx context.Context, v *voucher.Voucher, o order.Order, now time.Duration) error {
	if !g.inFlight.Enter() {
		return fmt.Errorf("%w: %d wait for an answer", order.ErrOverloaded, g.config.MaxInFlight)
	}
	defer g.inFlight.Leave()
	l := g.line(v)
	if err := l.marked(now); err != nil {
		return err
	}
	r := g.rides.get(ctx, o)
	l.join(r)
	err := <-r.done
	g.rides.put(r)
	return err
}

// Open makes a voucher ready before the first buyer comes, and waits until it is. The
// error is ctx's, [voucher.ErrNotFound], or [order.ErrUnavailable] once the gate closes.
func (g *Gate) Open(ctx context.Context, v *voucher.Voucher) error {
	l := g.line(v)
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

// line finds or makes the line of a voucher.
func (g *Gate) line(v *voucher.Voucher) *line {
	g.mu.RLock()
	l := g.lines[v.ID]
	g.mu.RUnlock()
	if l != nil {
		return l
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.lines[v.ID]; l != nil {
		return l
	}
	l = newLine(g, v)
	g.lines[v.ID] = l
	return l
}

// all lists the lines there are.
func (g *Gate) all() []*line {
	g.mu.RLock()
	defer g.mu.RUnlock()
	lines := make([]*line, 0, len(g.lines))
	for _, l := range g.lines {
		lines = append(lines, l)
	}
	return lines
}

// now is a clock that never steps back, for what is measured against Redis' clock.
func (g *Gate) now() time.Duration { return time.Since(g.started) }
