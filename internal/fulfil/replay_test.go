package fulfil

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// firstFails is the database while it takes no orders of the first voucher.
type firstFails struct {
	fakeAdmissionStore
	err error
}

func (s firstFails) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	for _, a := range batch {
		if a.VoucherID == s.stream.voucher {
			return nil, s.err
		}
	}
	return s.fakeAdmissionStore.Persist(ctx, batch)
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
						m := newFakeStreams(failing)
						for range well {
							m.acceptOther()
						}
						for _, h := range m.of(m.stream) {
							h.consumer, h.deliveries = consumer, 1
						}
						for _, h := range m.of(m.second) {
							h.consumer = holder
						}
						defer m.run(t.Context(), m, firstFails{storeOf(m), err}, nil, m.stream, m.second)()
						fail.Unequal(t, m.othersAfter(20*time.Second), well, "of %d orders of the other voucher are written", well)
						m.wantNoneRejected(t, time.Minute)
					})
				})
			}
		}
	}
}

// The log says once a minute which voucher's orders wait, and why, while others are written. In an outage it does not
// blame a voucher.
func TestLogNamesTheVoucherThatWaits(t *testing.T) {
	bubbles(t, map[string]int{"others are written": 10, "an outage": 0}, func(t *testing.T, want int) {
		m := newFakeStreams(64)
		var log strings.Builder
		logs := func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) }
		end := m.run(t.Context(), m, firstFails{storeOf(m), order.ErrUnavailable}, logs, m.second, m.stream)
		for range 600 {
			if simulate.Sleep(time.Second); want > 0 {
				m.set(m.acceptOther)
			}
		}
		end()
		if n := strings.Count(log.String(), "the database refuses an order, trying again later\" voucher=1"); n < want-1 || n > want+1 {
			t.Errorf("%d lines in ten minutes: %s", n, log.String())
		}
	})
}

// slowPages are streams of which Redis takes 200 ms for each page of a replay.
type slowPages struct {
	cutStreams
	pages *atomic.Int64
}

func (m slowPages) readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	m.pages.Add(1)
	simulate.Sleep(200 * time.Millisecond)
	return m.fakeStreams.readPending(ctx, consumer, s, after, count)
}

// A worker has hundreds of orders of a voucher that the database refuses in its retry queue when a read fails, so that
// they are delivered once more. New orders of another voucher are read between two pages.
func TestLongReplayHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var cut atomic.Bool
		m := slowPages{cutStreams{newFakeStreams(750), cut.Load}, &atomic.Int64{}}
		for _, h := range m.entries {
			h.consumer = "w-1"
		}
		defer m.run(t.Context(), m, firstFails{storeOf(m.fakeStreams), errRefused}, func(c *Config) { c.BatchSize = 75 }, m.stream, m.second)()
		simulate.Sleep(3 * time.Minute) // all are in the retry queue
		before := m.pages.Load()
		cut.Store(true)
		simulate.Sleep(time.Second)
		cut.Store(false)
		for n := range 5 {
			m.set(m.acceptOther)
			fail.Unequal(t, m.othersAfter(time.Second), n+1, "of %d orders of the other voucher are written after %d pages", n+1, m.pages.Load()-before)
		}
		if n := m.pages.Load() - before; n < 10 {
			t.Errorf("the replay had only %d pages", n)
		}
	})
}

// A dead process and this one have many single orders of a voucher, while entries have many orders by default. They are
// claimed and replayed in batches all the same.
func TestPendingSingleOrdersAreReadInBatches(t *testing.T) {
	bubbles(t, map[string]string{"its own": "w-1", "a dead process's": "dead-1"}, func(t *testing.T, consumer string) {
		m := slowPages{cutStreams{newFakeStreams(1000), func() bool { return false }}, &atomic.Int64{}}
		m.page = 1000 // for the claims, if one comes first
		for _, h := range m.entries {
			h.consumer = consumer
		}
		defer m.run(t.Context(), m, storeOf(m.fakeStreams), nil, m.stream)()
		m.wantAfter(t, time.Minute, 1000)
		m.set(func() {
			if n := len(m.offered); n > 14 { // the first ones are small
				t.Errorf("1000 orders took %d transactions", n)
			}
		})
	})
}
