package fulfil

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
)

// twoStreams are the streams of two vouchers.
type twoStreams struct {
	*fakeStreams
	second *fakeStreams
}

// newTwoStreams returns streams with so many orders of the vouchers 1 and 2. The orders of voucher 2 have numbers after
// 1000.
func newTwoStreams(first, second int) twoStreams {
	m := twoStreams{newFakeStreams(first), newFakeStreams(0)}
	m.second.stream, m.second.ids = newStream("", 2, 0), 1000
	for range second {
		m.second.accept()
	}
	return m
}

// run starts a worker that reads some streams from a reader. It ends when end is called.
func (m twoStreams) run(t *testing.T, from streamReader, to order.AdmissionStore, streams ...*stream) (end func()) {
	return m.runLogged(t, io.Discard, from, to, streams...)
}

func (m twoStreams) runLogged(t *testing.T, log io.Writer, from streamReader, to order.AdmissionStore, streams ...*stream) (end func()) {
	f := newFulfiller(Config{Name: "w", Store: to, Log: slog.New(slog.NewTextHandler(log, nil))}.withDefaults(), from)
	f.setWatched(streams)
	f.heartbeat(t.Context())
	endHeartbeat := f.startHeartbeat()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { newWorker(f, 0).run(ctx, ctx) })
	return func() {
		cancel()
		running.Wait()
		endHeartbeat()
	}
}

func (m twoStreams) of(s *stream) *fakeStreams {
	if s == m.second.stream {
		return m.second
	}
	return m.fakeStreams
}

func (m twoStreams) readNew(ctx context.Context, consumer string, streams []*stream, count int, block time.Duration) (all []entry, err error) {
	for _, s := range streams {
		found, err := m.of(s).readNew(ctx, consumer, nil, count, 0)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	if len(all) == 0 {
		time.Sleep(block)
	}
	return all, nil
}

func (m twoStreams) readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	return m.of(s).readPending(ctx, consumer, s, after, count)
}

func (m twoStreams) claimIdle(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) ([]entry, string, error) {
	return m.of(s).claimIdle(ctx, consumer, s, idle, cursor, count)
}

func (m twoStreams) claimFrom(ctx context.Context, consumer, from string, s *stream, idle time.Duration, count int) ([]entry, error) {
	return m.of(s).claimFrom(ctx, consumer, from, s, idle, count)
}

func (m twoStreams) countPending(ctx context.Context, streams []*stream) (map[*stream]map[string]int64, error) {
	counts, err := m.fakeStreams.countPending(ctx, streams)
	if err != nil {
		return nil, err
	}
	of, err := m.second.countPending(ctx, streams)
	counts[m.second.stream] = of[m.second.stream]
	return counts, err
}

func (m twoStreams) acknowledge(ctx context.Context, parts [][]entry) []error {
	errs := make([]error, len(parts))
	for i, part := range parts {
		errs[i] = m.of(part[0].stream).acknowledge(ctx, parts[i:i+1])[0]
	}
	return errs
}

// firstFails is the database of twoStreams while it takes no orders of the first voucher.
type firstFails struct {
	fakeAdmissionStore
	second *fakeStreams
	err    error
}

func (s firstFails) Persist(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
	for _, a := range batch {
		if a.VoucherID == s.stream.voucher {
			return nil, s.err
		}
	}
	return s.second.Persist(ctx, batch)
}

// A worker begins, so that it replays all streams, and the first orders that it gets are of a voucher whose row somebody
// has locked. Those of another voucher do not wait for them, whether they are new or were in the worker's hands before.
func TestReplayHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"unavailable": order.ErrUnavailable, "refused": errRefused} {
		for where, consumer := range map[string]string{"new": "", "its own": "w-1", "a dead process's": "dead-1"} {
			for others, holder := range map[string]string{"new": "", "its own": "w-1"} {
				t.Run(name+", "+where+", others "+others, func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						const failing, well = 3, 300
						m := newTwoStreams(failing, well)
						for _, h := range m.entries {
							h.consumer, h.deliveries = consumer, 1
						}
						for _, h := range m.second.entries {
							h.consumer = holder
						}
						defer m.run(t, m, firstFails{fakeAdmissionStore{m.fakeStreams}, m.second, err}, m.stream, m.second.stream)()
						if n, _ := m.second.after(20 * time.Second); n != well {
							t.Errorf("%d of %d orders of the other voucher are written", n, well)
						}
						if _, rejected := m.after(time.Minute); len(rejected) != 0 {
							t.Errorf("rejected %v", rejected)
						}
					})
				})
			}
		}
	}
}

// The log says once a minute which voucher's orders wait, and why, while others are written. In an outage it does not blame
// a voucher.
func TestLogNamesTheVoucherThatWaits(t *testing.T) {
	t.Parallel()
	for others, want := range map[bool]int{true: 10, false: 0} {
		t.Run(fmt.Sprint("others are written: ", others), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newTwoStreams(64, 0)
				var log strings.Builder
				end := m.runLogged(t, &log, m, firstFails{fakeAdmissionStore{m.fakeStreams}, m.second, order.ErrUnavailable}, m.second.stream, m.stream)
				for range 600 {
					if time.Sleep(time.Second); others {
						m.second.set(m.second.accept)
					}
				}
				end()
				if n := strings.Count(log.String(), "the database refuses an order, trying again later\" voucher=1"); n < want-1 || n > want+1 {
					t.Errorf("%d lines in ten minutes: %s", n, log.String())
				}
			})
		})
	}
}

// slowPages are streams of which Redis takes 200 ms for each page of a replay.
type slowPages struct {
	cutStreams
	pages *atomic.Int64
}

func (m slowPages) readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	m.pages.Add(1)
	time.Sleep(200 * time.Millisecond)
	return m.twoStreams.readPending(ctx, consumer, s, after, count)
}

// A worker has thousands of orders of a voucher that the database refuses in its retry queue when a read fails, so that
// they are delivered once more. New orders of another voucher are read between two pages.
func TestLongReplayHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var cut atomic.Bool
		m := slowPages{cutStreams{newTwoStreams(2500, 0), cut.Load}, &atomic.Int64{}}
		for _, h := range m.entries {
			h.consumer = "w-1"
		}
		defer m.run(t, m, firstFails{fakeAdmissionStore{m.fakeStreams}, m.second, errRefused}, m.stream, m.second.stream)()
		time.Sleep(3 * time.Minute) // all are in the retry queue
		before := m.pages.Load()
		cut.Store(true)
		time.Sleep(time.Second)
		cut.Store(false)
		for n := range 5 {
			m.second.set(m.second.accept)
			if written, _ := m.second.after(time.Second); written != n+1 {
				t.Errorf("%d of %d orders of the other voucher are written after %d pages", written, n+1, m.pages.Load()-before)
			}
		}
		if n := m.pages.Load() - before; n < 10 {
			t.Errorf("the replay had only %d pages", n)
		}
	})
}

// A dead process and this one have thousands of single orders of a voucher, while entries have many orders by default.
// They are claimed and replayed in batches all the same.
func TestPendingSingleOrdersAreReadInBatches(t *testing.T) {
	t.Parallel()
	for _, consumer := range []string{"w-1", "dead-1"} {
		t.Run(consumer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := slowPages{cutStreams{newTwoStreams(3000, 0), func() bool { return false }}, &atomic.Int64{}}
				m.page = 1000 // for the claims, if one comes first
				for _, h := range m.entries {
					h.consumer = consumer
				}
				defer m.run(t, m, fakeAdmissionStore{m.fakeStreams}, m.stream)()
				if n, _ := m.after(time.Minute); n != 3000 {
					t.Errorf("%d orders are written", n)
				}
				m.set(func() {
					if n := len(m.offered); n > 20 {
						t.Errorf("3000 orders took %d transactions", n)
					}
				})
			})
		})
	}
}
