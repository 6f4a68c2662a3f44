package fulfil

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
)

// Entries of one stream that fail, for whatever reason, do not keep those of another stream from being tried again,
// however many they are. They are not tried more often than every 2 s in the long run.
func TestRetriesOfOneStreamHoldUpNoOther(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"refused": errRefused, "misfit": errors.New("the row does not fit"), "unavailable": order.ErrUnavailable} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const failing, well = 5000, 20
				m := newFakeStreams(failing + well)
				m.refuse = func(a order.Accepted) error {
					if a.OrderID > well {
						return why
					}
					return nil
				}
				f := newFulfiller(Config{Name: "w", Store: fakeAdmissionStore{m}, Log: slog.New(slog.DiscardHandler)}.withDefaults(), m)
				w, other := newWorker(f, 0), newStream("", 2, 0)
				for n, h := range m.entries {
					e := h.entry
					if n < well {
						e.stream = other
					}
					w.retryLater(retryEntry{entry: e, setAside: n%2 == 0}, 0)
				}
				for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
					w.retry(t.Context())
				}
				if persisted, rejected := m.after(0); persisted != well || len(rejected) != 0 {
					t.Errorf("%d persisted, rejected %v", persisted, rejected)
				}
				if tries := len(m.offered); tries > 300 {
					t.Errorf("tried %d times in a minute", tries)
				}
				m.set(func() { m.refuse = nil })
				for began := time.Now(); len(w.retryQueue) > 0 && time.Since(began) < time.Minute; time.Sleep(10 * time.Millisecond) {
					w.retry(t.Context())
				}
				if persisted, _ := m.after(0); persisted != failing+well {
					t.Errorf("finally %d persisted", persisted)
				}
			})
		})
	}
}

// A batch of one order, which the database refuses, leaves nothing to write when it is set aside.
func TestBatchesOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newFakeStreams(1)
		m.refuseFirst(errRefused)
		m.work(t, func(c *Config) { c.BatchSize = 1 }, func() {
			m.after(time.Minute) // nothing else to write
			m.flow(time.Second, 10*time.Second)
			if persisted, rejected := m.after(time.Second); persisted != 10 || len(rejected) != 0 {
				t.Errorf("%d persisted, rejected %v", persisted, rejected)
			}
		})
	})
}
