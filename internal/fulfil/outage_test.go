package fulfil

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

var errUnknown = errors.New("never seen before")

// errRefused is the error of a database that objects to an order.
var errRefused = fmt.Errorf("%w: %w", order.ErrUnavailable, order.ErrRefused)

// errVoucherMissing is the error of a database that does not have the voucher.
var errVoucherMissing = fmt.Errorf("%w: %w", order.ErrUnavailable, order.ErrVoucherMissing)

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

// Orders that fail do not block the others. One whose own fault the database names is rejected at once. The others are
// rejected when the fault is proven to be theirs, and not before.
func TestBadEntriesAreIsolated(t *testing.T) {
	bubbles(t, map[string]func() error{
		"an error that nobody knows": func() error { return errUnknown },
		"the database objects":       func() error { return errRefused },
		"a panic":                    func() error { panic(errUnknown) },
	}, func(t *testing.T, poison func() error) {
		m := newFakeStreams(500)
		m.refuse = func(a contract.Accepted) error {
			switch a.OrderID {
			case 77:
				return voucher.ErrSoldOut
			case 401:
				return poison()
			}
			return nil
		}
		m.work(t, nil, func() {
			persisted, rejected := m.after(time.Minute)
			if persisted != 498 || !maps.Equal(rejected, map[int64]Reason{77: SoldOut}) {
				t.Errorf("without other orders: %d persisted, rejected %v", persisted, rejected)
			}
			m.flow(time.Second, 29*time.Second)
			if _, rejected = m.after(0); len(rejected) != 1 {
				t.Errorf("after less than 30 counted failures: rejected %v", rejected)
			}
			m.flow(time.Second, 31*time.Second)
			persisted, rejected = m.after(10 * time.Second)
			if persisted != 498+60 || !maps.Equal(rejected, map[int64]Reason{77: SoldOut, 401: Failed}) {
				t.Errorf("finally: %d persisted, rejected %v", persisted, rejected)
			}
		})
	})
}

// An entry whose failure says nothing about it waits for ever and does not block the others. That the database does not
// have its voucher is such a failure, even if orders of the same voucher are written: of two servers one may have it.
func TestBadEntryThatLooksLikeAnOutage(t *testing.T) {
	bubbles(t, map[string]error{"unavailable": order.ErrUnavailable, "no voucher": errVoucherMissing}, func(t *testing.T, failure error) {
		m := newFakeStreams(300)
		m.refuse = func(a contract.Accepted) error {
			if a.OrderID == 1 || a.OrderID == 200 {
				return failure
			}
			return nil
		}
		var aside atomic.Int64
		m.work(t, func(c *Config) { c.Observer.RetryQueue = aside.Store }, func() {
			m.wantAfter(t, 30*time.Second, 298)
			m.flow(time.Second, 20*time.Minute)
			if persisted, rejected := m.after(10 * time.Second); persisted != 298+1200 || len(rejected) != 0 || aside.Load() != 2 {
				t.Errorf("%d persisted, rejected %v, %d in the retry queue", persisted, rejected, aside.Load())
			}
			m.set(func() { m.refuse = nil })
			if persisted, _ := m.after(10 * time.Second); persisted != 300+1200 || aside.Load() != 0 {
				t.Errorf("%d persisted, %d in the retry queue", persisted, aside.Load())
			}
		})
	})
}

// An entry that fails and is the only one waits. Later entries overtake it.
func TestLoneEntryWaits(t *testing.T) {
	bubbles(t, map[string]error{"strange": errUnknown, "objects": errRefused, "unavailable": order.ErrUnavailable, "no voucher": errVoucherMissing}, func(t *testing.T, err error) {
		m := newFakeStreams(1)
		m.refuseFirst(err)
		var outage atomic.Pointer[time.Time]
		began := time.Now()
		m.work(t, func(c *Config) {
			c.Observer.Outage = func(since time.Time, _ error) { outage.Store(&since) }
		}, func() {
			m.wantAfter(t, 10*time.Minute, 0)
			if since := outage.Load(); since == nil || since.Sub(began) > time.Second {
				t.Errorf("an outage since %v was reported, the entry fails since %v", since, began)
			}
			m.set(m.accept)
			m.wantAfter(t, 10*time.Second, 1)
			m.set(func() { m.refuse = nil })
			if persisted, rejected := m.after(10 * time.Second); persisted != 2 || len(rejected) != 0 || !outage.Load().IsZero() {
				t.Errorf("%d persisted, rejected %v, outage since %v", persisted, rejected, outage.Load())
			}
		})
	})
}

// Outages begin and end while orders arrive. Whatever the database's error is, no order is rejected for it.
func TestOutagesComeAndGo(t *testing.T) {
	bubbles(t, map[string]error{"unavailable": order.ErrUnavailable, "objects": errRefused, "strange": errUnknown}, func(t *testing.T, down error) {
		m := newFakeStreams(0)
		outages := 0
		var running atomic.Bool
		m.work(t, func(c *Config) {
			c.Observer.Outage = func(since time.Time, _ error) {
				if running.Swap(!since.IsZero()) != !since.IsZero() && !since.IsZero() {
					outages++
				}
			}
		}, func() {
			for range 10 {
				m.flow(50*time.Millisecond, 3*time.Second)
				m.set(func() { m.dbErr = down })
				m.flow(50*time.Millisecond, 7*time.Second)
				m.set(func() { m.dbErr = nil })
			}
			m.wantAfter(t, 20*time.Second, 10*200)
			if outages != 10 || running.Load() {
				t.Errorf("%d outages were reported of 10; still running: %v", outages, running.Load())
			}
		})
	})
}

// After an outage the database only answers that orders are refused for good. The outage is over once it has recorded
// that.
func TestOutageEndsWithARejection(t *testing.T) {
	bubbles(t, map[string]error{"sold out": voucher.ErrSoldOut, "stale epoch": order.ErrStaleEpoch}, func(t *testing.T, final error) {
		m := newFakeStreams(3)
		m.dbErr = order.ErrUnavailable
		var since atomic.Pointer[time.Time]
		m.work(t, func(c *Config) {
			c.Observer.Outage = func(began time.Time, _ error) { since.Store(&began) }
		}, func() {
			simulate.Sleep(5 * time.Second)
			if err := m.fulfiller.Check(t.Context()); err == nil || since.Load() == nil || since.Load().IsZero() {
				t.Errorf("during the outage: %v, since %v", err, since.Load())
			}
			m.set(func() { m.dbErr, m.refuse = nil, func(contract.Accepted) error { return final } })
			persisted, rejected := m.after(5 * time.Second)
			if persisted != 0 || len(rejected) != 3 {
				t.Errorf("%d persisted, rejected %v", persisted, rejected)
			}
			if err := m.fulfiller.Check(t.Context()); err != nil || !since.Load().IsZero() {
				t.Errorf("after the outage: %v, since %v", err, since.Load())
			}
		})
	})
}

// A write hangs. The database takes no orders then, before that fails, unless other workers write orders meanwhile.
func TestWriteThatHangs(t *testing.T) {
	bubbles(t, map[string]bool{"alone": false, "while others are written": true}, func(t *testing.T, others bool) {
		c := Config{Log: slog.New(slog.DiscardHandler)}.withDefaults()
		h := dbHealth{config: &c}
		began := h.begin()
		for time.Since(began) < 9*time.Second {
			if simulate.Sleep(300 * time.Millisecond); others {
				h.wrote(t.Context(), h.begin(), nil)
			}
			hangs := time.Since(began) > outageAfter && !others
			if err := h.check(); hangs != errors.Is(err, errStillRunning) || hangs != (err != nil) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		h.wrote(t.Context(), began, order.ErrUnavailable)
		fail.Unequal(t, h.check() != nil, !others, "an outage") // of 9 s, or of none
		h.wrote(t.Context(), h.begin(), nil)
		fail.If(t, h.check())
	})
}

// An order is refused for good while rejections cannot be recorded. It is offered again, and confirmed if that is right
// by then.
func TestRejectionIsRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(20)
		m.refuse = func(a contract.Accepted) error {
			if a.OrderID == 7 {
				m.set(func() { m.dbErr = order.ErrUnavailable }) // from now on
				return voucher.ErrSoldOut
			}
			return nil
		}
		m.work(t, nil, func() {
			m.wantNoneRejected(t, 10*time.Minute)
			m.set(func() { m.dbErr, m.refuse = nil, nil })
			m.wantAfter(t, 10*time.Second, 20)
		})
	})
}
