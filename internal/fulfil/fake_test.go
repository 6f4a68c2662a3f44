package fulfil

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/simulate"
)

// fakeStreams is a streamReader and the state of a fake store, in memory: the streams of two vouchers, and the
// consumers of their entries.
type fakeStreams struct {
	streamReader   // of which nobody calls more than the methods below
	mu             sync.Mutex
	stream, second *stream
	entries        []*delivery
	byID           map[string]*delivery
	rejected       map[int64]Reason
	attempts       map[string]map[string]bool // the processes whose attempts have not ended, by entry
	begun          int                        // attempts
	// page is the number of entries that one claimIdle examines.
	page  int
	dbErr error // of the database, for everything
	// repliesLost: an attempt that begins is recorded, and the worker does not learn of it. hangs: the same, after
	// nodeTimeout, and no attempt ends. cut: entries are delivered, and the worker learns of none.
	repliesLost, hangs, cut bool
	// pages counts the pages of replays, each of which takes pageTakes.
	pages     atomic.Int64
	pageTakes time.Duration
	// away is a voucher whose streams are on a node that does not answer.
	away       int64
	offered    []int // the sizes of the batches
	twice      int   // orders that were in a batch twice
	persisted  map[int64]time.Time
	refuse     func(contract.Accepted) error
	heartbeats map[string]heartbeat // by key
	fulfiller  *Fulfiller           // of work
}

// heartbeat is a process's heartbeat key.
type heartbeat struct {
	incarnation string
	until       time.Time
}

type delivery struct {
	entry
	consumer     string
	deliveredAt  time.Time
	acknowledged bool
}

func newFakeStreams(orders int) *fakeStreams {
	m := &fakeStreams{
		stream: newStream("", 1, 0), second: newStream("", 2, 0), rejected: map[int64]Reason{}, attempts: map[string]map[string]bool{}, page: 10,
		persisted: map[int64]time.Time{}, heartbeats: map[string]heartbeat{}, byID: map[string]*delivery{},
	}
	for range orders {
		m.accept()
	}
	return m
}

var errRedisDown = errors.New("no connection")

func (m *fakeStreams) set(fn func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn()
}

func (m *fakeStreams) deliver(h *delivery, to string) entry {
	h.consumer, h.deliveredAt = to, time.Now()
	h.deliveries++
	return h.entry
}

func (m *fakeStreams) ensureGroup(_ context.Context, s *stream) error {
	if s.voucher == m.away {
		return errRedisDown
	}
	return nil
}

// find returns the entries of some streams that are at a consumer, or at none if it is "", and not acknowledged.
func (m *fakeStreams) find(consumer string, streams ...*stream) (found []*delivery) {
	for _, h := range m.entries {
		if slices.Contains(streams, h.stream) && h.consumer == consumer && !h.acknowledged {
			found = append(found, h)
		}
	}
	return found
}

func (m *fakeStreams) readNew(_ context.Context, consumer string, streams []*stream, count int, block time.Duration, _ <-chan struct{}) (found []entry, _ error) {
	m.set(func() {
		for _, s := range streams {
			unread := m.find("", s)
			for _, h := range unread[:min(len(unread), count)] {
				e := m.deliver(h, consumer)
				e.deliveries = 0 // a first delivery is not counted
				found = append(found, e)
			}
		}
	})
	if len(found) == 0 {
		simulate.Sleep(block)
	}
	if m.lost() {
		return nil, errRedisDown
	}
	return found, nil
}

func (m *fakeStreams) lost() (cut bool) { m.set(func() { cut = m.cut }); return cut }

func (m *fakeStreams) readPending(_ context.Context, consumer string, s *stream, after string, count int) (found []entry, _ error) {
	simulate.Sleep(m.pageTakes)
	m.set(func() {
		m.pages.Add(1)
		for _, h := range m.find(consumer, s) {
			if h.id > after && len(found) < count {
				found = append(found, m.deliver(h, consumer))
			}
		}
	})
	return found, nil
}

func (m *fakeStreams) claimIdle(_ context.Context, consumer string, s *stream, idle time.Duration, cursor string, _ int) (found []entry, next string, _ error) {
	next = claimStart
	m.set(func() {
		looked := 0
		for _, h := range m.entries {
			if h.stream != s || h.acknowledged || h.consumer == "" || h.id <= cursor {
				continue
			}
			if looked++; looked > m.page {
				return
			}
			next = h.id
			if time.Since(h.deliveredAt) >= idle {
				found = append(found, m.deliver(h, consumer))
			}
		}
		next = claimStart
	})
	return found, next, nil
}

func (m *fakeStreams) claimFrom(_ context.Context, consumer, from string, s *stream, idle time.Duration, count int) (found []entry, _ error) {
	m.set(func() {
		for _, h := range m.find(from, s) {
			if time.Since(h.deliveredAt) >= idle && len(found) < count {
				found = append(found, m.deliver(h, consumer))
			}
		}
	})
	return found, nil
}

func (m *fakeStreams) countPending(_ context.Context, streams []*stream) (counts map[*stream]map[string]int64, _ error) {
	counts = map[*stream]map[string]int64{}
	for _, s := range streams {
		counts[s] = map[string]int64{}
	}
	m.set(func() {
		for _, h := range m.entries {
			if !h.acknowledged && h.consumer != "" && counts[h.stream] != nil {
				counts[h.stream][h.consumer]++
			}
		}
	})
	return counts, nil
}

func (m *fakeStreams) setHeartbeat(_ context.Context, key, incarnation string, lasts time.Duration) (renewed bool, _ error) {
	m.set(func() {
		before := m.heartbeats[key]
		renewed = before.incarnation == incarnation && time.Now().Before(before.until)
		m.heartbeats[key] = heartbeat{incarnation, time.Now().Add(lasts)}
	})
	return renewed, nil
}

func (m *fakeStreams) removeHeartbeat(_ context.Context, key string) error {
	m.set(func() { delete(m.heartbeats, key) })
	return nil
}

func (m *fakeStreams) alive(context.Context, []string) (incarnations map[string]string, _ error) {
	incarnations = map[string]string{}
	m.set(func() {
		for key, h := range m.heartbeats {
			if time.Now().Before(h.until) {
				incarnations[key] = h.incarnation
			}
		}
	})
	return incarnations, nil
}

func (m *fakeStreams) acknowledge(_ context.Context, parts [][]entry) []error {
	m.set(func() {
		for _, e := range slices.Concat(parts...) {
			m.end(e.id)
		}
	})
	return make([]error, len(parts))
}

func (m *fakeStreams) end(id string) (ended bool) {
	h := m.byID[id]
	ended = !h.acknowledged
	h.acknowledged = true
	return ended
}

func (m *fakeStreams) deadLetter(_ context.Context, e entry, _ bool, reason Reason, _ string) (rejected bool, _ error) {
	m.set(func() {
		if rejected = m.end(e.id); rejected {
			m.rejected[e.order.OrderID] = reason
		}
	})
	return rejected, nil
}

func (m *fakeStreams) beginAttempt(ctx context.Context, e entry, process string) (others []string, _ error) {
	m.set(func() {
		if m.attempts[e.id] == nil {
			m.attempts[e.id] = map[string]bool{}
		}
		others = slices.DeleteFunc(slices.Sorted(maps.Keys(m.attempts[e.id])), func(other string) bool { return other == process })
		m.attempts[e.id][process] = true
		m.begun++
	})
	if m.hung(ctx) || m.repliesLost {
		return nil, errRedisDown
	}
	return others, nil
}

// hung waits in vain if Redis hangs.
func (m *fakeStreams) hung(ctx context.Context) bool {
	return m.hangs && (sleep(ctx, nodeTimeout) || true)
}

func (m *fakeStreams) endAttempt(ctx context.Context, e entry, process string) error {
	if m.hung(ctx) {
		return errRedisDown
	}
	m.set(func() { delete(m.attempts[e.id], process) })
	return nil
}

func (m *fakeStreams) backlog(_ context.Context, streams []*stream) (lengths map[*stream]int64, oldest time.Duration, err error) {
	lengths = map[*stream]int64{}
	for _, s := range streams {
		if s.voucher == m.away {
			err = errRedisDown
		} else {
			lengths[s] = 0
		}
	}
	return lengths, 0, err
}

func (m *fakeStreams) idleConsumers(context.Context, *stream, time.Duration) ([]string, error) {
	return nil, nil
}

func (m *fakeStreams) removeConsumer(context.Context, string, *stream) error { return nil }

// accept adds an order to the stream, and acceptOther one to the second stream, whose orders have numbers after
// secondIDs.
func (m *fakeStreams) accept() { m.acceptIn(m.stream, int64(len(m.entries)+1)) }

func (m *fakeStreams) acceptOther() { m.acceptIn(m.second, secondIDs+int64(len(m.entries)+1)) }

const secondIDs = 1_000_000

func (m *fakeStreams) acceptIn(s *stream, n int64) {
	id := fmt.Sprintf("%05d", n)
	m.byID[id] = &delivery{entry: entry{
		stream: s, id: id, order: contract.Accepted{OrderID: n, VoucherID: s.voucher, UserID: n, At: ledger.EntryTime(id)},
	}}
	m.entries = append(m.entries, m.byID[id])
}

// of lists the entries of a stream.
func (m *fakeStreams) of(s *stream) (all []*delivery) {
	for _, h := range m.entries {
		if h.stream == s {
			all = append(all, h)
		}
	}
	return all
}
