package fulfil

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
)

// Entries of one stream that fail, for whatever reason, do not keep those of another stream from being tried again,
// however many they are. In the long run some of them are tried every 2 s, and no more.
func TestRetriesOfOneStreamHoldUpNoOther(t *testing.T) {
	bubbles(t, map[string]error{"refused": errRefused, "misfit": errors.New("the row does not fit"), "unavailable": order.ErrUnavailable}, func(t *testing.T, why error) {
		const failing, well = 600, 20
		m := newFakeStreams(failing + well)
		m.refuse = func(a contract.Accepted) error {
			if a.OrderID > well {
				return why
			}
			return nil
		}
		w, other := newWorker(process(m, storeOf(m), nil), 0), newStream("", 2, 0)
		for n, h := range m.entries {
			e := h.entry
			if n < well {
				e.stream = other
			}
			w.retries.add(retryEntry{entry: e, setAside: n%2 == 0}, 0)
		}
		for began := time.Now(); time.Since(began) < time.Minute; simulate.Sleep(w.config.MinBackoff) {
			w.retry(t.Context())
		}
		m.wantAfter(t, 0, well)
		if tries := len(m.offered); tries > 400 {
			t.Errorf("tried %d times in a minute", tries)
		}
		m.set(func() { m.refuse = nil })
		for began := time.Now(); len(w.retries.entries) > 0 && time.Since(began) < time.Minute; simulate.Sleep(w.config.MinBackoff) {
			w.retry(t.Context())
		}
		m.wantAfter(t, 0, failing+well)
	})
}

// The database refuses a voucher with many buckets. New orders do not wait until one of each was tried again, nor does
// an order of another voucher that failed before, and the log says why the database refuses.
func TestRefusalsOfManyBuckets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const buckets, each, well = 64, 20, 20
		m := newFakeStreams(buckets*each + well)
		m.refuse = func(a contract.Accepted) error {
			if a.OrderID > well {
				return errRefused
			}
			return nil
		}
		var log strings.Builder
		f := process(m, storeOf(m), func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		w, other := newWorker(f, 0), newStream("", 2, 0)
		var refused []*stream
		for bucket := range buckets {
			refused = append(refused, newStream("", 1, bucket))
		}
		for n, h := range m.entries {
			e := retryEntry{entry: h.entry, setAside: true}
			if e.entry.stream = refused[n%buckets]; n < well {
				e.entry.stream, e.setAside, e.failures = other, false, 1
			}
			w.retries.add(e, 0)
		}
		for began := time.Now(); time.Since(began) < 10*time.Second; simulate.Sleep(10 * time.Millisecond) {
			before := len(m.offered)
			w.retry(t.Context())
			if tries := len(m.offered) - before; tries > 32+well {
				t.Fatalf("%d orders were tried in a row", tries)
			}
		}
		m.wantAfter(t, 0, well)
		if n := strings.Count(log.String(), "the database refuses an order"); n != buckets || !strings.Contains(log.String(), errRefused.Error()) {
			t.Errorf("%d lines say that the database refuses a bucket's orders, want %d", n, buckets)
		}
	})
}

// The database refuses most orders of a voucher. The others wait until each was tried, and not for those that are tried
// again.
func TestGoodOrdersAmongRefusedOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const orders, oneIn = 500, 20
		m := newFakeStreams(orders)
		m.refuse = func(a contract.Accepted) error {
			if a.OrderID%oneIn != 0 {
				return errRefused
			}
			return nil
		}
		m.work(t, nil, func() {
			m.wantAfter(t, 5*time.Minute, orders/oneIn)
		})
	})
}

// hangingStreams is a Redis that hangs.
type hangingStreams struct {
	*fakeStreams
	hangs atomic.Bool
}

// pass waits in vain while Redis hangs.
func (m *hangingStreams) pass(ctx context.Context) error {
	if !m.hangs.Load() {
		return nil
	}
	sleep(ctx, nodeTimeout)
	return errRedisDown
}

func (m *hangingStreams) beginAttempt(ctx context.Context, e entry, process string) ([]string, error) {
	others, err := m.fakeStreams.beginAttempt(ctx, e, process) // Redis gets the command and does not answer
	return others, errors.Join(err, m.pass(ctx))
}

func (m *hangingStreams) endAttempt(ctx context.Context, e entry, process string) error {
	if err := m.pass(ctx); err != nil {
		return err
	}
	return m.fakeStreams.endAttempt(ctx, e, process)
}

// Redis hangs while many entries are to be tried alone. A round of the worker takes a few timeouts and not one for each
// of them, and the worker ends as soon as it is told to give up.
func TestAttemptsWhileRedisHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const entries = 200
		m := &hangingStreams{fakeStreams: newFakeStreams(entries)}
		m.hangs.Store(true)
		w := newWorker(process(m, storeOf(m.fakeStreams), nil), 0)
		for _, h := range m.entries {
			e := h.entry
			e.deliveries = 100
			w.retries.add(retryEntry{entry: e}, 0)
		}
		for range 10 {
			w.health.wrote(t.Context(), w.health.begin(), nil) // suspicious, since others are written
			begun := time.Now()
			w.retry(t.Context())
			if took := time.Since(begun); took > 4*nodeTimeout {
				t.Errorf("a round took %v", took)
			}
			simulate.Sleep(time.Second)
		}
		ctx, giveUp := context.WithCancel(t.Context())
		time.AfterFunc(nodeTimeout/2, giveUp)
		begun := time.Now()
		w.retry(ctx)
		if took := time.Since(begun); took > 2*nodeTimeout {
			t.Errorf("the worker ended %v later", took)
		}
		if m.begun == 0 || len(w.attempts.unsettled) == 0 {
			t.Errorf("%d attempts were begun, %d of them may not have ended", m.begun, len(w.attempts.unsettled))
		}
		m.hangs.Store(false)
		w.attempts.settle(t.Context())
		m.wantNoAttempts(t)
	})
}
