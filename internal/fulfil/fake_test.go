package fulfil

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
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
	page int
	// dbErr, unless nil, is the database's error for everything. redisDown: no call to Redis succeeds.
	dbErr     error
	redisDown bool
	// repliesLost: an attempt that begins is recorded, and the worker does not learn of it.
	repliesLost bool
	offered     []int // the sizes of the batches
	persisted   map[int64]time.Time
	refuse      func(contract.Accepted) error
	heartbeats  map[string]heartbeat // by key
	fulfiller   *Fulfiller           // of work
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

// locked runs fn under the mutex, unless Redis is down.
func (m *fakeStreams) locked(fn func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.redisDown {
		return errRedisDown
	}
	fn()
	return nil
}

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

func (m *fakeStreams) ensureGroup(context.Context, *stream) error { return nil }

func (m *fakeStreams) readNew(_ context.Context, consumer string, streams []*stream, count int, block time.Duration, _ <-chan struct{}) (found []entry, err error) {
	perStream := map[*stream]int{}
	err = m.locked(func() {
		for _, h := range m.entries {
			if slices.Contains(streams, h.stream) && !h.acknowledged && h.consumer == "" && perStream[h.stream] < count {
				perStream[h.stream]++
				e := m.deliver(h, consumer)
				e.deliveries = 0 // a first delivery is not counted
				found = append(found, e)
			}
		}
	})
	if len(found) == 0 && err == nil {
		simulate.Sleep(block)
	}
	return found, err
}

func (m *fakeStreams) readPending(_ context.Context, consumer string, s *stream, after string, count int) (found []entry, err error) {
	err = m.locked(func() {
		for _, h := range m.entries {
			if h.stream == s && !h.acknowledged && h.consumer == consumer && h.id > after && len(found) < count {
				found = append(found, m.deliver(h, consumer))
			}
		}
	})
	return found, err
}

func (m *fakeStreams) claimIdle(_ context.Context, consumer string, s *stream, idle time.Duration, cursor string, _ int) (found []entry, next string, err error) {
	next = "0-0"
	err = m.locked(func() {
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
		next = "0-0"
	})
	return found, next, err
}

func (m *fakeStreams) claimFrom(_ context.Context, consumer, from string, s *stream, idle time.Duration, count int) (found []entry, err error) {
	err = m.locked(func() {
		for _, h := range m.entries {
			if h.stream == s && !h.acknowledged && h.consumer == from && time.Since(h.deliveredAt) >= idle && len(found) < count {
				found = append(found, m.deliver(h, consumer))
			}
		}
	})
	return found, err
}

func (m *fakeStreams) countPending(_ context.Context, streams []*stream) (counts map[*stream]map[string]int64, err error) {
	counts = map[*stream]map[string]int64{}
	for _, s := range streams {
		counts[s] = map[string]int64{}
	}
	err = m.locked(func() {
		for _, h := range m.entries {
			if !h.acknowledged && h.consumer != "" && counts[h.stream] != nil {
				counts[h.stream][h.consumer]++
			}
		}
	})
	return counts, err
}

func (m *fakeStreams) setHeartbeat(_ context.Context, key, incarnation string, lasts time.Duration) (renewed bool, err error) {
	err = m.locked(func() {
		before := m.heartbeats[key]
		renewed = before.incarnation == incarnation && time.Now().Before(before.until)
		m.heartbeats[key] = heartbeat{incarnation, time.Now().Add(lasts)}
	})
	return renewed, err
}

func (m *fakeStreams) removeHeartbeat(_ context.Context, key string) error {
	return m.locked(func() { delete(m.heartbeats, key) })
}

func (m *fakeStreams) alive(context.Context, []string) (incarnations map[string]string, err error) {
	incarnations = map[string]string{}
	err = m.locked(func() {
		for key, h := range m.heartbeats {
			if time.Now().Before(h.until) {
				incarnations[key] = h.incarnation
			}
		}
	})
	return incarnations, err
}

func (m *fakeStreams) acknowledge(_ context.Context, parts [][]entry) []error {
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

func (m *fakeStreams) end(id string) (ended bool) {
	h := m.byID[id]
	ended = !h.acknowledged
	h.acknowledged = true
	return ended
}

func (m *fakeStreams) deadLetter(_ context.Context, e entry, _ bool, reason Reason, _ string) (rejected bool, err error) {
	err = m.locked(func() {
		if rejected = m.end(e.id); rejected {
			m.rejected[e.order.OrderID] = reason
		}
	})
	return rejected, err
}

func (m *fakeStreams) beginAttempt(_ context.Context, e entry, process string) (others []string, err error) {
	err = m.locked(func() {
		if m.attempts[e.id] == nil {
			m.attempts[e.id] = map[string]bool{}
		}
		others = slices.DeleteFunc(slices.Sorted(maps.Keys(m.attempts[e.id])), func(other string) bool { return other == process })
		m.attempts[e.id][process] = true
		m.begun++
	})
	if err == nil && m.repliesLost {
		return nil, errRedisDown
	}
	return others, err
}

func (m *fakeStreams) endAttempt(_ context.Context, e entry, process string) error {
	return m.locked(func() { delete(m.attempts[e.id], process) })
}

func (m *fakeStreams) backlog(context.Context, []*stream) (map[*stream]int64, time.Duration, error) {
	return map[*stream]int64{m.stream: 1}, 0, nil
}

func (m *fakeStreams) idleConsumers(context.Context, *stream, time.Duration) ([]string, error) {
	return nil, nil
}

func (m *fakeStreams) removeConsumer(context.Context, string, *stream) error { return nil }

func (m *fakeStreams) Persist(_ context.Context, batch []contract.Accepted) ([]order.Status, error) {
	m.mu.Lock()
	m.offered = append(m.offered, len(batch))
	dbErr, refuse := m.dbErr, m.refuse
	m.mu.Unlock()
	if dbErr != nil {
		return nil, dbErr
	}
	for _, a := range batch {
		if refuse == nil {
			break
		}
		if err := refuse(a); err != nil { // or it panics
			return nil, err
		}
	}
	m.set(func() {
		for _, a := range batch {
			m.persisted[a.OrderID] = time.Now()
		}
	})
	return slices.Repeat([]order.Status{order.Confirmed}, len(batch)), nil
}

func (m *fakeStreams) Reject(context.Context, contract.Accepted) (order.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dbErr != nil {
		return "", m.dbErr
	}
	return order.Rejected, nil
}

// refuseFirst makes the database answer the first order with an error.
func (m *fakeStreams) refuseFirst(err error) {
	m.refuse = func(a contract.Accepted) error {
		if a.OrderID == 1 {
			return err
		}
		return nil
	}
}

// accept adds an order to the stream, and acceptOther one to the second stream, whose orders have numbers after secondIDs.
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

// othersAfter sleeps for d and returns how many orders of the second stream are persisted.
func (m *fakeStreams) othersAfter(d time.Duration) (n int) {
	simulate.Sleep(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	for id := range m.persisted {
		if id > secondIDs {
			n++
		}
	}
	return n
}

// work runs a worker on m while script runs.
func (m *fakeStreams) work(t *testing.T, change func(*Config), script func()) {
	t.Helper()
	end := m.run(t.Context(), m, storeOf(m), change, m.stream)
	script()
	end()
}

// process returns a process that reads some streams from a reader.
func process(from streamReader, to contract.AdmissionStore, change func(*Config), streams ...*stream) *Fulfiller {
	c := Config{Store: to, Log: slog.New(slog.DiscardHandler), Name: "w"}
	if change != nil {
		change(&c)
	}
	f := newFulfiller(c.withDefaults(), from)
	for _, s := range streams {
		f.streams.all[s.id()] = s
	}
	f.streams.setWatched(streams)
	return f
}

// run starts a process with one worker. It ends when end is called.
func (m *fakeStreams) run(ctx context.Context, from streamReader, to contract.AdmissionStore, change func(*Config), streams ...*stream) (end func()) {
	f := process(from, to, change, streams...)
	m.fulfiller = f
	ctx, cancel := context.WithCancel(ctx)
	f.liveness.beat(ctx)
	endHeartbeat := f.liveness.start()
	var running sync.WaitGroup
	running.Go(func() { newWorker(f, 0).run(ctx, ctx) })
	return func() {
		cancel()
		running.Wait()
		endHeartbeat()
	}
}

// fakeAdmissionStore is a store of which only Persist, Reject and the lists of vouchers work.
type fakeAdmissionStore struct {
	*fakeStreams
	unsupported
}

func storeOf(m *fakeStreams) fakeAdmissionStore { return fakeAdmissionStore{fakeStreams: m} }

// unsupported is a store whose other methods nobody calls.
type unsupported struct{ contract.AdmissionStore }

func (unsupported) UnclearedVouchers(context.Context, time.Time, int64, int) ([]contract.AdmissionVoucher, error) {
	return nil, nil
}

func (unsupported) AdmissionVouchers(context.Context, time.Time) ([]contract.AdmissionVoucher, error) {
	return []contract.AdmissionVoucher{{VoucherID: 1, Buckets: 1}}, nil
}

// The database is unavailable for long. It is tried again every one to two seconds, and no order is rejected.
func TestLongOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(30)
		m.dbErr = order.ErrUnavailable
		m.work(t, nil, func() {
			const long = 10 * time.Minute
			simulate.Sleep(long)
			m.set(func() { m.dbErr = nil })
			back := time.Now()
			m.wantAfter(t, 10*time.Second, 30)
			m.mu.Lock()
			defer m.mu.Unlock()
			first := slices.MinFunc(slices.Collect(maps.Values(m.persisted)), time.Time.Compare)
			if took := first.Sub(back); took > 2*time.Second {
				t.Errorf("noticed after %v that the database is back", took)
			}
			if n, seconds := len(m.offered), int(long.Seconds()); n < seconds/2 || n > seconds+100 {
				t.Errorf("asked %d times in %v", n, long)
			}
		})
	})
}

// Entries that are pending at another consumer are claimed after ClaimIdle and not before, also when a page of younger
// entries precedes them.
func TestClaimExaminesAllPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(25)
		for n, h := range m.entries {
			h.consumer, h.deliveredAt = "other", time.Now()
			if n < 20 {
				h.deliveredAt = h.deliveredAt.Add(24 * time.Hour) // delivered recently: not idle yet
			}
		}
		began := time.Now()
		m.heartbeats["fulfil:alive:other"] = heartbeat{"x", began.Add(time.Hour)}
		m.work(t, func(c *Config) { c.ClaimIdle, c.ClaimEvery = time.Minute, 20*time.Second }, func() {
			simulate.Sleep(59 * time.Second)
			synctest.Wait()
			m.set(func() {
				fail.Unequal(t, len(m.persisted), 0, "entries were claimed too early")
			})
			simulate.Sleep(22 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.persisted) != 5 || m.persisted[21].Sub(began) < time.Minute {
				t.Errorf("%d claimed: %v", len(m.persisted), m.persisted)
			}
		})
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 50 * time.Millisecond, 3: 200 * time.Millisecond, 7: 2 * time.Second, 1000: 2 * time.Second} {
		if got := backoff(n, 50*time.Millisecond, 2*time.Second); got > want || got < want/2-1 {
			t.Errorf("after %d failures: %v, want %v less some", n, got, want)
		}
	}
}
