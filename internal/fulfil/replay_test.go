package fulfil

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A worker begins, so that it replays all streams, and the first orders that it gets are of a voucher whose row
// somebody has locked. Those of another voucher do not wait for them, whether they are new or were in the worker's
// hands before.
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
						m.refuseFirstVoucher(err)
						defer m.run(t.Context(), m, storeOf(m), nil, m.stream, m.second)()
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
		m.refuseFirstVoucher(order.ErrUnavailable)
		end := m.run(t.Context(), m, storeOf(m), logs, m.second, m.stream)
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

// A worker has hundreds of orders of a voucher that the database refuses in its retry queue when a read fails, so that
// they are delivered once more. New orders of another voucher are read between two pages.
func TestLongReplayHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(750)
		m.pageTakes = 200 * time.Millisecond
		for _, h := range m.entries {
			h.consumer = "w-1"
		}
		m.refuseFirstVoucher(errRefused)
		defer m.run(t.Context(), m, storeOf(m), func(c *Config) { c.BatchSize = 75 }, m.stream, m.second)()
		simulate.Sleep(3 * time.Minute) // all are in the retry queue
		before := m.pages.Load()
		m.set(func() { m.cut = true })
		simulate.Sleep(time.Second)
		m.set(func() { m.cut = false })
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
		m := newFakeStreams(1000)
		m.page, m.pageTakes = 1000, 200*time.Millisecond // for the claims, if one comes first
		for _, h := range m.entries {
			h.consumer = consumer
		}
		defer m.run(t.Context(), m, storeOf(m), nil, m.stream)()
		m.wantAfter(t, time.Minute, 1000)
		m.set(func() {
			if n := len(m.offered); n > 14 { // the first ones are small
				t.Errorf("1000 orders took %d transactions", n)
			}
		})
	})
}

// While the database does not take one voucher's orders, reads fail after they delivered another voucher's. These are
// replayed and written all the same, whether or not the worker had orders of that voucher in its hands before.
func TestFailedReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err     error
		failing int
	}{{order.ErrUnavailable, 3}, {order.ErrUnavailable, 64}, {order.ErrUnavailable, 600}, {errRefused, 3}, {errRefused, 600}} {
		for _, before := range []int{0, 1} {
			t.Run(fmt.Sprintf("%d orders fail, %d others before: %v", tc.failing, before, tc.err), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					m := newFakeStreams(tc.failing)
					for range before {
						m.acceptOther()
					}
					m.refuseFirstVoucher(tc.err)
					// Those of the second voucher are written first, so that nothing is written once an order failed.
					defer m.run(t.Context(), m, storeOf(m), nil, m.second, m.stream)()
					if n := m.othersAfter(5 * time.Second); n != before { // by now the first voucher's orders are in hand
						t.Fatalf("%d of %d orders of the other voucher are written", n, before)
					}
					m.set(func() { m.cut = true })
					const more = 300
					m.set(func() {
						for range more {
							m.acceptOther()
						}
					})
					simulate.Sleep(5 * time.Second)
					m.set(func() { m.cut = false })
					fail.Unequal(t, m.othersAfter(20*time.Second), before+more, "of %d orders of the other voucher are written", before+more)
					m.wantNoneRejected(t, time.Minute)
				})
			})
		}
	}
}

// While the database is down and reads of new orders fail, no order is in a batch twice.
func TestNoOrderIsTwiceInABatch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(20)
		m.dbErr = order.ErrUnavailable
		end := m.run(t.Context(), m, storeOf(m), nil, m.stream, m.second)
		for n := range 600 {
			simulate.Sleep(100 * time.Millisecond) // the orders of the second voucher come when those of the first one fail
			m.set(func() {
				if m.cut = n%3 == 0; len(m.entries) < 40 {
					m.acceptOther()
				}
			})
		}
		m.set(func() { m.dbErr, m.cut = nil, false })
		m.wantAfter(t, time.Minute, 40)
		end()
		if m.twice > 0 || slices.Max(m.offered) == 1 {
			t.Errorf("%d orders were in a batch twice; batches of up to %d", m.twice, slices.Max(m.offered))
		}
	})
}
