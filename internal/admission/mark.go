package admission

import (
	"errors"
	"sync/atomic"
	"time"

	"seckill/internal/voucher"
)

// window is when a voucher is on sale.
type window struct{ from, to time.Time }

// marks are what is known of a voucher without asking Redis.
type marks struct {
	end int64 // of the sale, in ms of Redis' clock
	// clock says what Redis' clock shows; nil until Redis has said so once.
	clock   atomic.Pointer[clock]
	refusal atomic.Pointer[mark]
}

// mark is a refusal that holds for whoever comes, until one who is let through to see
// for the others is told something else.
type mark struct {
	err   error
	every time.Duration
	next  atomic.Int64 // when the next one is let through, on the gate's clock
}

// overloadRecheck is how often one buyer is let through while too many orders are on
// their way. Consumers persist some hundreds in that time.
const overloadRecheck = 10 * time.Millisecond

// marked says why there is no point in asking; nil: ask.
func (m *marks) marked(now time.Duration) error {
	if c := m.clock.Load(); c != nil && c.at(now) >= m.end {
		return voucher.ErrEnded
	}
	r := m.refusal.Load()
	if r == nil {
		return nil
	}
	next := r.next.Load()
	if int64(now) >= next && r.next.CompareAndSwap(next, int64(now+r.every)) {
		return nil
	}
	return r.err
}

// mark has whoever comes refused with err.
func (m *marks) mark(now time.Duration, err error, every time.Duration) {
	r := m.refusal.Load()
	if r == nil || !errors.Is(r.err, err) {
		r = &mark{err: err, every: every}
		defer m.refusal.Store(r)
	}
	r.next.Store(int64(now + every))
}

// unmark takes the mark away, where it is one of err.
func (m *marks) unmark(err error) {
	if r := m.refusal.Load(); r != nil && errors.Is(r.err, err) {
		m.refusal.CompareAndSwap(r, nil)
	}
}

// clock is what Redis' clock showed when the gate's showed a time. It was read on the
// way here, so Redis is never behind what at says.
type clock struct {
	shown int64 // ms
	when  time.Duration
}

func (c *clock) at(now time.Duration) int64 { return c.shown + (now - c.when).Milliseconds() }

func (m *marks) tick(now time.Duration, shown int64) { m.clock.Store(&clock{shown: shown, when: now}) }
