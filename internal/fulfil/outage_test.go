package fulfil

import (
	"context"
	"errors"
	"fmt"
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

// after sleeps for d and returns the number of persisted orders and the reasons of the rejected ones.
func (m *fakeStreams) after(d time.Duration) (persisted int, rejected map[int64]Reason) {
	simulate.Sleep(d)
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.persisted), maps.Clone(m.rejected)
}

// wantAfter fails unless, after d, so many orders are persisted, and none is rejected.
func (m *fakeStreams) wantAfter(t *testing.T, d time.Duration, want int) {
	t.Helper()
	if persisted, rejected := m.after(d); persisted != want || len(rejected) != 0 {
		t.Errorf("%d persisted, want %d; rejected %v", persisted, want, rejected)
	}
}

func (m *fakeStreams) wantNoneRejected(t *testing.T, d time.Duration) {
	t.Helper()
	if _, rejected := m.after(d); len(rejected) != 0 {
		t.Errorf("rejected %v", rejected)
	}
}

// wantNoAttempts fails unless all attempts have ended.
func (m *fakeStreams) wantNoAttempts(t *testing.T) {
	t.Helper()
	for id, unfinished := range m.attempts {
		if len(unfinished) != 0 {
			t.Errorf("entry %s has unfinished attempts of %v", id, unfinished)
		}
	}
}

// flow accepts an order every so often, for d.
func (m *fakeStreams) flow(every, d time.Duration) {
	for began := time.Now(); time.Since(began) < d; simulate.Sleep(every) {
		m.set(m.accept)
	}
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
		m := newFakeStreams(1)
		began := time.Now()
		m.work(t, func(c *Config) { c.Store = slowStore{storeOf(m), 10 * time.Second} }, func() {
			for time.Since(began) < 9*time.Second {
				simulate.Sleep(300 * time.Millisecond)
				if others {
					m.fulfiller.health.wrote(t.Context(), m.fulfiller.health.begin(), nil)
				}
				hangs := time.Since(began) > outageAfter && !others
				if err := m.fulfiller.Check(t.Context()); hangs != errors.Is(err, errStillRunning) || hangs != (err != nil) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			}
		})
		fail.Unequal(t, len(m.fulfiller.health.running), 0, "writes are said to be running")
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

// The attempts of an entry that was delivered often are counted while others are written, and uncounted when they end.
// In an outage they are not counted at all.
func TestOnlyCrashingAttemptsCount(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(10)
		m.dbErr = order.ErrUnavailable
		for _, h := range m.entries {
			h.consumer, h.deliveries = "gone-1", 100
		}
		m.work(t, nil, func() {
			m.flow(10*time.Second, 10*time.Minute)
			m.set(func() {
				if len(m.attempts) != 0 {
					t.Errorf("attempts were counted in an outage: %v", m.attempts)
				}
				m.dbErr = nil
			})
			m.wantAfter(t, 10*time.Second, 70)
			m.wantNoAttempts(t)
		})
	})
}

// slowStore takes a while for order 1, and then does not say what became of it, as if its voucher's row were locked.
type slowStore struct {
	fakeAdmissionStore
	lasts time.Duration
}

func (s slowStore) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	if slices.ContainsFunc(batch, func(a contract.Accepted) bool { return a.OrderID == 1 }) {
		if !sleep(ctx, s.lasts) {
			return nil, ctx.Err()
		}
		return nil, order.ErrUnavailable
	}
	return s.fakeAdmissionStore.Persist(ctx, batch)
}

// Redis records the attempts and its replies are lost, for several processes after each other. The database was not
// asked, so that is no reason to reject an order.
func TestLostRepliesAreNoAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(1)
		suspicious := m.entries[0]
		suspicious.consumer, suspicious.deliveries, m.repliesLost = "gone-1", 100, true
		m.refuseFirst(order.ErrUnavailable) // before the first write nothing is counted, and the database is asked
		for range 10 {                      // processes
			m.work(t, func(c *Config) { c.ClaimIdle, c.ClaimEvery = time.Second, time.Second }, func() {
				m.flow(100*time.Millisecond, 30*time.Second)
				if _, rejected := m.after(0); suspicious.acknowledged || len(rejected) != 0 {
					t.Errorf("written %v, rejected %v", suspicious.acknowledged, rejected)
				}
			})
			if m.wantNoAttempts(t); m.begun == 0 {
				t.Error("no attempt was begun")
			}
			m.begun = 0
		}
		m.repliesLost, m.refuse = false, nil
		m.work(t, func(c *Config) { c.ClaimIdle, c.ClaimEvery = time.Second, time.Second }, func() {
			m.flow(time.Second, 10*time.Second)
			if _, rejected := m.after(10 * time.Second); !suspicious.acknowledged || len(rejected) != 0 {
				t.Errorf("written %v, rejected %v", suspicious.acknowledged, rejected)
			}
		})
	})
}
