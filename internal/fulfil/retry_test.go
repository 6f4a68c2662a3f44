package fulfil

import (
	"errors"
	"log/slog"
	"strings"
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
