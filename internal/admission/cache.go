package admission

import (
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/voucher"
)

// refusalCache is what this process knows of a bucket without asking Redis.
type refusalCache struct {
	end int64 // of the sale, in ms of Redis' clock
	// clock says what Redis' clock shows; nil until Redis has said so.
	clock   atomic.Pointer[clock]
	refusal atomic.Pointer[cachedRefusal]
}

// cachedRefusal is the answer to all requests, apart from one request at intervals that asks Redis, until Redis gives
// that request another answer.
type cachedRefusal struct {
	err   error
	every time.Duration
	next  atomic.Int64 // when the next request may ask, on the gate's clock
}

// overloadRecheckEvery is how often one request asks Redis while too many orders are pending. Consumers persist some
// hundreds in that time.
const overloadRecheckEvery = 10 * time.Millisecond

// cached returns the refusal of a request, or nil if the request is to ask Redis.
func (c *refusalCache) cached(now time.Duration) error {
	if k := c.clock.Load(); k != nil && k.at(now) >= c.end {
		return voucher.ErrEnded
	}
	r := c.refusal.Load()
	if r == nil {
		return nil
	}
	next := r.next.Load()
	if int64(now) >= next && r.next.CompareAndSwap(next, int64(now+r.every)) {
		return nil
	}
	return r.err
}

// peek returns the refusal that cached would return, or nil if a request may ask Redis now. Without a refusal it costs
// one atomic load.
func (c *refusalCache) peek(now func() time.Duration) error {
	r := c.refusal.Load()
	if r == nil || int64(now()) >= r.next.Load() {
		return nil
	}
	return r.err
}

// store has requests refused with err.
func (c *refusalCache) store(now time.Duration, err error, every time.Duration) {
	r := c.refusal.Load()
	if r == nil || !errors.Is(r.err, err) {
		r = &cachedRefusal{err: err, every: every}
		defer c.refusal.Store(r)
	}
	r.next.Store(int64(now + every))
}

// clear removes the refusal if it is err.
func (c *refusalCache) clear(err error) {
	if r := c.refusal.Load(); r != nil && errors.Is(r.err, err) {
		c.refusal.CompareAndSwap(r, nil)
	}
}

// clock is what Redis' clock showed at a time of the gate's clock. It was read on the way here, so Redis' clock is
// never behind what at returns.
type clock struct {
	shown int64 // ms
	when  time.Duration
}

func (k *clock) at(now time.Duration) int64 { return k.shown + (now - k.when).Milliseconds() }

func (c *refusalCache) syncClock(now time.Duration, shown int64) {
	c.clock.Store(&clock{shown: shown, when: now})
}

// window is when a voucher is on sale.
type window struct{ from, to time.Time }

// windowOf returns the window that the database holds.
func windowOf(st contract.EpochState) window { return window{from: st.BeginAt, to: st.EndAt} }

// ms returns the window as Redis holds it: in ms, rounded so that no order is accepted outside of it. The database
// keeps microseconds, so nothing finer counts.
func (w window) ms() (begin, end int64) {
	const unit = time.Microsecond
	return w.from.Truncate(unit).Add(time.Millisecond - unit).UnixMilli(), w.to.Truncate(unit).UnixMilli()
}

// windowIn returns the database's window in the form in which Redis is to hold it.
func windowIn(st contract.EpochState) ledger.Window {
	begin, end := windowOf(st).ms()
	return ledger.Window{Begin: begin, End: end, Paused: st.Paused, Revision: st.Revision}
}

func (w window) same(other window) bool {
	begin, end := w.ms()
	otherBegin, otherEnd := other.ms()
	return begin == otherBegin && end == otherEnd
}
