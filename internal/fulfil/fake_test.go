package fulfil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/voucher"
)

// memory is an inbox and a shelf: one stream, and who holds what of it.
type memory struct {
	mu       sync.Mutex
	stream   *stream
	entries  []*held
	buried   map[int64]Reason
	attempts map[string]int64
	// page is how many entries a claim looks at.
	page int
	// down makes the database unavailable, deaf Redis.
	down, deaf bool
	offered    []int // the sizes of the batches
	persisted  map[int64]time.Time
	refuse     func(order.Accepted) error
}

type held struct {
	entry
	by   string
	at   time.Time
	done bool
}

func newMemory(orders int) *memory {
	m := &memory{
		stream: newStream("", 1, 0), buried: map[int64]Reason{}, attempts: map[string]int64{}, page: 10,
		persisted: map[int64]time.Time{},
	}
	for n := range orders {
		m.entries = append(m.entries, &held{entry: entry{
			stream: m.stream, id: fmt.Sprintf("%05d", n+1), order: order.Accepted{OrderID: int64(n + 1), VoucherID: 1, UserID: int64(n + 1)},
		}})
	}
	return m
}

var errDeaf = errors.New("no connection")

// locked runs fn, unless Redis is gone.
func (m *memory) locked(fn func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.deaf {
		return errDeaf
	}
	fn()
	return nil
}

func (m *memory) set(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

func (m *memory) deliver(h *held, to string) entry {
	h.by, h.at = to, time.Now()
	h.deliveries++
	return h.entry
}

func (m *memory) prepare(context.Context, *stream) error { return nil }

func (m *memory) fresh(_ context.Context, consumer string, _ []*stream, count int, block time.Duration) (found []entry, err error) {
	err = m.locked(func() {
		for _, h := range m.entries {
			if !h.done && h.by == "" && len(found) < count {
				found = append(found, m.deliver(h, consumer))
			}
		}
	})
	if len(found) == 0 && err == nil {
		time.Sleep(block)
	}
	return found, err
}

func (m *memory) held(_ context.Context, consumer string, _ *stream, after string, count int) (found []entry, err error) {
	err = m.locked(func() {
		for _, h := range m.entries {
			if !h.done && h.by == consumer && h.id > after && len(found) < count {
				found = append(found, m.deliver(h, consumer))
			}
		}
	})
	return found, err
}

func (m *memory) claim(_ context.Context, consumer string, _ *stream, idle time.Duration, cursor string, _ int) (found []entry, next string, err error) {
	next = "0-0"
	err = m.locked(func() {
		looked := 0
		for _, h := range m.entries {
			if h.done || h.by == "" || h.id <= cursor {
				continue
			}
			if looked++; looked > m.page {
				return
			}
			next = h.id
			if time.Since(h.at) >= idle {
				found = append(found, m.deliver(h, consumer))
			}
		}
		next = "0-0"
	})
	return found, next, err
}

func (m *memory) done(_ context.Context, parts [][]entry) []error {
	errs := make([]error, len(parts))
	for i, part := range parts {
		errs[i] = m.locked(func() {
			for _, e := range part {
				m.end(e.id)
			}
		})
	}
	return errs
}

func (m *memory) end(id string) (ended bool) {
	for _, h := range m.entries {
		if h.id == id && !h.done {
			h.done, ended = true, true
		}
	}
	return ended
}

func (m *memory) bury(_ context.Context, e entry, _ bool, reason Reason, _ string) (buried bool, err error) {
	err = m.locked(func() {
		if buried = m.end(e.id); buried {
			m.buried[e.order.OrderID] = reason
		}
	})
	return buried, err
}

func (m *memory) attempt(_ context.Context, e entry, by int64) (n int64, err error) {
	err = m.locked(func() {
		m.attempts[e.id] += by
		n = m.attempts[e.id]
	})
	return n, err
}

func (m *memory) reservation(_ context.Context, e entry) (order.Accepted, bool, error) {
	return e.order, true, nil
}

func (m *memory) lengths(context.Context, []*stream) (map[*stream]int64, time.Duration, error) {
	return map[*stream]int64{m.stream: 1}, 0, nil
}

func (m *memory) idlers(context.Context, *stream, time.Duration) ([]string, error) { return nil, nil }
func (m *memory) leave(context.Context, string, *stream) error                     { return nil }

func (m *memory) Persist(_ context.Context, batch []order.Accepted) ([]order.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offered = append(m.offered, len(batch)); m.down {
		return nil, order.ErrUnavailable
	}
	states := make([]order.Status, len(batch))
	for i, a := range batch {
		if m.refuse != nil {
			if err := m.refuse(a); err != nil {
				return nil, err
			}
		}
		states[i] = order.Confirmed
	}
	for _, a := range batch {
		m.persisted[a.OrderID] = time.Now()
	}
	return states, nil
}

func (m *memory) Reject(context.Context, order.Accepted) (order.Status, error) {
	return order.Rejected, nil
}

// work runs a worker over m for a while of the bubble's time.
func (m *memory) work(t *testing.T, change func(*Config), script func()) {
	t.Helper()
	c := Config{Shelf: persister{m}, Log: slog.New(slog.DiscardHandler), Name: "w"}.withDefaults()
	if change != nil {
		change(&c)
	}
	f := newFulfiller(c, m)
	f.watch([]*stream{m.stream})
	stop, cancel := context.WithCancel(t.Context())
	work, giveUp := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { newWorker(f, 0).run(stop, work) })
	script()
	cancel()
	giveUp()
	running.Wait()
}

// persister is what a worker asks of a shelf.
type persister struct{ *memory }

func (persister) Standing(context.Context, int64) (order.Standing, error) {
	return order.Standing{}, errors.ErrUnsupported
}
func (persister) Close(context.Context, int64) (order.Standing, error) {
	return order.Standing{}, errors.ErrUnsupported
}
func (persister) Open(context.Context, int64, int64) (order.Standing, error) {
	return order.Standing{}, errors.ErrUnsupported
}
func (persister) LiveOrders(context.Context, int64, int64, int) ([]order.Order, error) {
	return nil, errors.ErrUnsupported
}
func (persister) AdmissionSales(context.Context, time.Time) ([]order.Sale, error) {
	return []order.Sale{{VoucherID: 1, Buckets: 1}}, nil
}

// A day without the database: asked again and again, ever less often and not less than
// that, and nothing is rejected.
func TestOutageOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(30)
		m.down = true
		m.work(t, nil, func() {
			time.Sleep(24 * time.Hour)
			m.set(func() { m.down = false })
			back := time.Now()
			time.Sleep(10 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.persisted) != 30 || len(m.buried) != 0 {
				t.Errorf("%d persisted, %d buried", len(m.persisted), len(m.buried))
			}
			if took := m.persisted[1].Sub(back); took > 2*time.Second {
				t.Errorf("it took %v to notice that the database is back", took)
			}
			if n := len(m.offered); n < 24*60*60/2 || n > 24*60*60+100 {
				t.Errorf("asked %d times in a day", n)
			}
		})
	})
}

// Redis goes away after the commit: the entries are delivered again, and done with then.
func TestRedisAwayForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(5)
		m.refuse = func(order.Accepted) error { m.deaf = true; return nil }
		m.work(t, nil, func() {
			time.Sleep(time.Hour)
			m.set(func() { m.deaf, m.refuse = false, nil })
			time.Sleep(10 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, h := range m.entries {
				if !h.done {
					t.Errorf("entry %s is not done", h.id)
				}
			}
			if len(m.persisted) != 5 || len(m.buried) != 0 {
				t.Errorf("%d persisted, %d buried", len(m.persisted), len(m.buried))
			}
		})
	})
}

// What others hold is left to them for as long as they may have it, and found also
// behind a page of entries that are not yet to be claimed.
func TestClaimLooksBehindFreshPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(25)
		for n, h := range m.entries {
			h.by, h.at = "other", time.Now()
			if n < 20 {
				h.at = h.at.Add(24 * time.Hour) // held for long, and again and again
			}
		}
		begun := time.Now()
		m.work(t, func(c *Config) { c.ClaimIdle, c.ClaimEvery = time.Minute, 20*time.Second }, func() {
			time.Sleep(59 * time.Second)
			synctest.Wait()
			m.set(func() {
				if len(m.persisted) != 0 {
					t.Errorf("%d were taken from somebody who was at work", len(m.persisted))
				}
			})
			time.Sleep(22 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.persisted) != 5 || m.persisted[21].Sub(begun) < time.Minute {
				t.Errorf("%d claimed: %v", len(m.persisted), m.persisted)
			}
		})
	})
}

// One order that fails does not hold up the others: they are done at once, while it is
// tried again with growing pauses, and given up.
func TestPoisonIsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(500)
		final, strange := int64(77), int64(401)
		m.refuse = func(a order.Accepted) error {
			switch a.OrderID {
			case final:
				return voucher.ErrSoldOut
			case strange:
				return errors.New("never seen before")
			}
			return nil
		}
		m.work(t, nil, func() {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			m.set(func() {
				if len(m.persisted) != 498 || len(m.offered) > 2*2*10 || m.buried[final] != SoldOut || len(m.buried) != 1 {
					t.Errorf("at once: %d persisted in %d transactions, buried %v", len(m.persisted), len(m.offered), m.buried)
				}
			})
			time.Sleep(10 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			if m.buried[strange] != Failed || m.attempts["00401"] != 5 || len(m.persisted) != 498 {
				t.Errorf("in the end: %d persisted, buried %v after %d attempts", len(m.persisted), m.buried, m.attempts["00401"])
			}
		})
	})
}

func TestPauses(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 50 * time.Millisecond, 3: 200 * time.Millisecond, 7: 2 * time.Second, 1000: 2 * time.Second} {
		if got := pause(n, 50*time.Millisecond, 2*time.Second); got > want || got < want/2-1 {
			t.Errorf("after %d failures: %v, want %v less some", n, got, want)
		}
	}
}
