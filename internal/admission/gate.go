package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Gate decides about orders in Redis. Close it.
type Gate struct {
	*core
	inFlight *InFlight
	lookups  *lookups

	mu       sync.RWMutex
	vouchers map[int64]*voucherState
}

var _ order.Gate = (*Gate)(nil)

// New returns a gate, or an error that says what is wrong with c.
func New(c Config) (*Gate, error) {
	c = c.WithDefaults()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return newGate(c, newLedger(c)), nil
}

// Try returns [ledger.ErrForbidden] if Redis refuses a command that the flow needs. Any other error does not tell
// whether it does.
func (g *Gate) Try(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return g.reader.Try(ctx, g.config.Prefix)
}

func newGate(c Config, b buckets) *Gate {
	g := &Gate{core: newCore(c, b), inFlight: NewInFlight(c.MaxInFlight), vouchers: make(map[int64]*voucherState)}
	g.lookups = newLookups(g.core, g.openClosed, g.stuck)
	return g
}

// Close ends the batches under way, which takes at most [Config.DecisionTimeout], refuses all other requests, and
// waits.
func (g *Gate) Close() error {
	g.close()
	return nil
}

// Refusal implements [order.Gate]. Once the pause of a cached refusal is over, one request may ask Redis again; Refusal
// leaves that to [Gate.Admit], which the same buyer calls next.
func (g *Gate) Refusal(v *voucher.Voucher, userID int64) error {
	known := g.known(v.ID)
	if known == nil {
		return nil
	}
	err := known.bucketOf(userID).peek(g.now)
	if err != nil {
		g.config.Observer.decided(err)
	}
	return err
}

// Admit implements [order.Gate]. Where Redis is asked, it recognizes an order that was accepted before. But a voucher
// that is sold out, or whose sale is over, is refused without asking Redis, so a caller that may repeat an order calls
// [Gate.OrderOf] after such a refusal.
//
// If ctx ends while the order waits in its queue, the order is taken out: at once if the queue has not moved for a
// moment, otherwise when its batch would be sent. Once the order was sent, Admit waits for the outcome even if ctx
// ends: it takes at most [Config.DecisionTimeout], and any answer before would be a guess.
func (g *Gate) Admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	err := g.admit(ctx, v, o)
	told := err
	if _, repeated := errors.AsType[*order.RepeatedError](err); repeated {
		told = nil // as for a repetition with the same id
	}
	g.config.Observer.decided(told)
	return err
}

func (g *Gate) admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	if err := g.config.paired(); err != nil {
		return err
	}
	if !g.inFlight.Enter() {
		return fmt.Errorf("%w: %d wait for an answer", order.ErrOverloaded, g.config.MaxInFlight)
	}
	defer g.inFlight.Leave()
	b, now := g.voucher(v).bucketOf(o.UserID), g.now()
	if err := b.cached(now); err != nil {
		return err
	}
	return b.queue.Do(ctx, pendingOrder{userID: o.UserID, orderID: o.ID, key: o.Key, arrived: now})
}

// Lookup implements [order.Gate].
func (g *Gate) Lookup(ctx context.Context, userID, orderID int64) (order.Order, error) {
	if err := g.config.paired(); err != nil {
		return order.Order{}, err
	}
	return g.lookups.lookup(ctx, userID, orderID)
}

// OrderOf implements [order.Gate].
func (g *Gate) OrderOf(ctx context.Context, v *voucher.Voucher, userID int64) (order.Order, error) {
	if err := g.config.paired(); err != nil {
		return order.Order{}, err
	}
	return g.lookups.orderOf(ctx, v.ID, g.voucher(v).bucketOf(userID).keys, userID)
}

// OrdersOf implements [order.Gate].
func (g *Gate) OrdersOf(ctx context.Context, userID int64) ([]order.Order, error) {
	if err := g.config.paired(); err != nil {
		return nil, err
	}
	return g.lookups.ordersOf(ctx, userID)
}

// Await implements [order.Gate].
func (g *Gate) Await(ctx context.Context, o order.Order, limit time.Duration) error {
	return g.config.Workers.Await(ctx, o, limit)
}

// Audit implements [order.Gate]. All numbers are sums over the buckets. The buckets are not read at the same moment,
// but none of them has changed while Seq and Pending stay the same; and stock that is transferred in the meantime is
// counted once.
func (g *Gate) Audit(ctx context.Context, voucherID int64) (order.GateAudit, error) {
	if err := g.config.paired(); err != nil {
		return order.GateAudit{}, err
	}
	v := g.known(voucherID)
	if v == nil {
		st, err := g.config.Store.EpochState(ctx, voucherID)
		if err != nil {
			return order.GateAudit{}, err
		}
		v = newVoucherState(g.core, voucherOf(voucherID, st)) // not kept: an audit alone needs no state in memory
	}
	audit, err := v.audit(ctx)
	if errors.Is(err, errOpening) {
		g.openClosed(voucherID)
	}
	return audit, err
}

// Open opens a voucher before the first buyer comes, and waits until it is open. The error is ctx's,
// [voucher.ErrNotFound], [voucher.ErrEnded] for a voucher that is forgotten, or [order.ErrUnavailable] once the gate
// closes.
func (g *Gate) Open(ctx context.Context, v *voucher.Voucher) error {
	s := g.voucher(v)
	for _, b := range s.buckets {
		if err := s.openFully(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// openClosed starts to open a voucher that was found closed, and reports whether it does. It does not if the voucher is
// being opened, or was open when this process last saw it: then [Gate.Check] finds out what became of it.
func (g *Gate) openClosed(voucherID int64) bool {
	if s := g.known(voucherID); s != nil {
		return s.reopenClosed()
	}
	return g.spawn(func() {
		ctx, cancel := context.WithTimeout(g.closing, storeTimeout)
		defer cancel()
		st, err := g.config.Store.EpochState(ctx, voucherID)
		if err == nil && !st.Forgotten { // otherwise the next look-up begins again
			g.voucher(voucherOf(voucherID, st)).reopenClosed()
		}
	})
}

// stuckAfter is how long look-ups wait for a voucher that is being opened.
const stuckAfter = time.Minute

// stuck reports whether the opening of a voucher has taken longer than stuckAfter: some of its pending orders cannot be
// written.
func (g *Gate) stuck(voucherID int64) bool {
	s := g.known(voucherID)
	return s != nil && s.openingFor() > stuckAfter
}

// Run compares Redis with the database at intervals, until ctx ends: without it, nobody would notice that Redis is
// behind for a voucher that nobody buys. It also drops vouchers whose sale is long over, or that were forgotten. Its
// only error is the context's cause.
func (g *Gate) Run(ctx context.Context) error {
	every := time.NewTicker(g.config.CheckEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			g.Check(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

const (
	// checksAtOnce is how many vouchers are checked at the same time: vouchers on a node that does not answer must not
	// delay the others.
	checksAtOnce = 32
	// idleChecks is how many of the vouchers that nobody buys are checked each time.
	idleChecks = 50
)

// Check does once what Run does repeatedly. It checks the vouchers to which orders were sent since the last time, and
// some of the others in turn: a check costs the database and Redis as much as some orders, and most vouchers have no
// buyers at the moment. If one of the others has changed, Redis has probably lost data of more of them, so the rest is
// checked at once.
func (g *Gate) Check(ctx context.Context) {
	if g.config.paired() != nil {
		return
	}
	var due, idle []*voucherState
	for _, v := range g.all() {
		switch {
		case time.Since(v.window.to) > g.config.LookupAfterSale:
			g.drop(v)
		case v.soldSince(g.now() - 2*g.config.CheckEvery):
			due = append(due, v)
		default:
			idle = append(idle, v)
		}
	}
	slices.SortFunc(idle, func(a, b *voucherState) int { return cmp.Compare(a.checked.Load(), b.checked.Load()) })
	n := min(len(idle), idleChecks)
	if g.checkEach(ctx, append(due, idle[:n]...)) {
		g.checkEach(ctx, idle[n:])
	}
}

// checkEach checks vouchers, and reports whether one of them was closed by that.
func (g *Gate) checkEach(ctx context.Context, vouchers []*voucherState) bool {
	var closed atomic.Bool
	var group errgroup.Group
	group.SetLimit(checksAtOnce)
	for _, v := range vouchers {
		group.Go(func() error {
			useless, same := v.check(ctx)
			if v.checked.Store(int64(g.now())); useless {
				g.drop(v)
			} else if !same {
				closed.Store(true)
			}
			return nil
		})
	}
	_ = group.Wait() // check logs its errors
	return closed.Load()
}

// voucher returns the state of a voucher, and creates it for the first request.
func (g *Gate) voucher(v *voucher.Voucher) *voucherState {
	if s := g.known(v.ID); s != nil && s.isOf(v) {
		return s
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.vouchers[v.ID]
	// If the sale's window was changed, requests that wait in the old state are still answered. The two states are to
	// each other like two processes.
	if s == nil || !s.isOf(v) {
		s = newVoucherState(g.core, v)
		g.vouchers[v.ID] = s
	}
	return s
}

// known returns the state of a voucher that was asked for before, or nil.
func (g *Gate) known(voucherID int64) *voucherState {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.vouchers[voucherID]
}

// all lists the states of all vouchers.
func (g *Gate) all() []*voucherState {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return slices.Collect(maps.Values(g.vouchers))
}

// drop removes the state of a voucher that is idle.
func (g *Gate) drop(v *voucherState) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vouchers[v.id] == v && v.idle() {
		delete(g.vouchers, v.id)
	}
}
