package fulfil

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

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
				fail.Unequal(t, len(m.attempts), 0, "attempts that were counted in an outage")
				m.dbErr = nil
			})
			m.wantAfter(t, 10*time.Second, 70)
			m.wantNoAttempts(t)
		})
	})
}

// Redis records the attempts and its replies are lost, for several processes after each other. The database was not
// asked, so that is no reason to reject an order.
func TestLostRepliesAreNoAttempts(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(1)
		suspicious := m.entries[0]
		suspicious.consumer, suspicious.deliveries, m.repliesLost = "gone-1", 100, true
		m.refuseFirst(order.ErrUnavailable) // before the first write nothing is counted, and the database is asked
		often := func(c *Config) { c.ClaimIdle, c.ClaimEvery = time.Second, time.Second }
		for range 10 { // processes
			m.work(t, often, func() {
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
		m.work(t, often, func() {
			m.flow(time.Second, 10*time.Second)
			if _, rejected := m.after(10 * time.Second); !suspicious.acknowledged || len(rejected) != 0 {
				t.Errorf("written %v, rejected %v", suspicious.acknowledged, rejected)
			}
		})
	})
}

// Redis hangs while many entries are to be tried alone. A round of the worker takes a few timeouts and not one for each
// of them, and the worker ends as soon as it is told to give up.
func TestAttemptsWhileRedisHangs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const entries = 200
		m := newFakeStreams(entries)
		m.hangs = true
		w := newWorker(process(m, storeOf(m), nil), 0)
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
		m.hangs = false
		w.attempts.settle(t.Context())
		m.wantNoAttempts(t)
	})
}

// mortalStreams are the streams as seen by a process that can be killed.
type mortalStreams struct {
	*fakeStreams
	killed context.Context
}

func (m mortalStreams) alone(do func() error) error {
	if m.killed.Err() != nil {
		return errRedisDown
	}
	return do()
}

func (m mortalStreams) endAttempt(ctx context.Context, e entry, process string) error {
	return m.alone(func() error { return m.fakeStreams.endAttempt(ctx, e, process) })
}

func (m mortalStreams) removeHeartbeat(ctx context.Context, key string) error {
	return m.alone(func() error { return m.fakeStreams.removeHeartbeat(ctx, key) })
}

// Many processes wait for one voucher's row. Attempts of processes that live last long and say nothing about the entry,
// however many processes want to try it. Then they are killed at the same moment, which is no proof that the order
// ended any of them.
func TestProcessesThatAreKilledTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(1)
		var running sync.WaitGroup
		start := func(name string, processes int, store contract.AdmissionStore) (kill func()) {
			killed, kill := context.WithCancel(t.Context())
			for n := range processes {
				end := m.start(killed, fmt.Sprintf("%s-%d", name, n), store)
				running.Go(func() { <-killed.Done(); end() })
			}
			return kill
		}
		kill := start("first", 8, slowStore{storeOf(m), 15 * time.Second})
		attempts := 0
		for began := time.Now(); attempts == 0 || time.Since(began) < 5*time.Minute; simulate.Sleep(100 * time.Millisecond) {
			m.set(func() {
				m.accept()
				attempts = len(m.attempts["00001"])
			})
		}
		if _, rejected := m.after(0); len(rejected) != 0 {
			t.Errorf("while all live: rejected %v", rejected)
		}
		kill()
		running.Wait()
		kill = start("second", 1, storeOf(m))
		m.flow(100*time.Millisecond, 2*time.Minute)
		kill()
		running.Wait()
		if _, rejected := m.after(0); len(rejected) != 0 || m.persisted[1].IsZero() {
			t.Errorf("killed during %d attempts: written %t, rejected %v", attempts, !m.persisted[1].IsZero(), rejected)
		}
	})
}

// While the process of an attempt lives, nobody else tries the entry. Once it is dead, the entry is to blame.
func TestWhoseAttemptsAreDeadly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(1)
		start := func(name string) *worker {
			return newWorker(process(m, storeOf(m), func(c *Config) { c.Name, c.MaxAttempts = name, 1 }), 0)
		}
		first, second := start("first"), start("second")
		after := func(living ...*worker) { // as long as makes a process dead
			for range 2 * missedHeartbeats {
				for _, w := range living {
					w.liveness.beat(t.Context())
				}
				simulate.Sleep(first.config.HeartbeatEvery)
			}
		}
		attempt := func(w *worker, want error) {
			t.Helper()
			e := retryEntry{entry: m.entries[0].entry}
			fail.Unless(t, w.attempts.record(t.Context(), &e), want, "%s", w.name)
		}
		after(first, second)
		attempt(first, nil)
		attempt(second, errAttempted)
		after(second)
		attempt(second, errDeadly)
	})
}

// start starts a process that can be killed. end waits for its end after that.
func (m *fakeStreams) start(killed context.Context, name string, store contract.AdmissionStore) (end func()) {
	return m.run(killed, mortalStreams{m, killed}, store, func(c *Config) { c.Name = name }, m.stream)
}

// Processes are killed one after the other, each while it has waited for seconds for one voucher's row, and while
// others are written. The order is well: it did not end any of them.
func TestProcessesThatAreKilledWhileTheyWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(1)
		m.entries[0].consumer, m.entries[0].deliveries = "gone-1", 100
		process := func(name string, store contract.AdmissionStore, until func() bool) {
			killed, kill := context.WithCancel(t.Context())
			end := m.start(killed, name, store)
			for began := time.Now(); !until() && time.Since(began) < 15*time.Minute; simulate.Sleep(100 * time.Millisecond) {
				m.set(m.accept)
			}
			kill()
			end()
			simulate.Sleep(time.Minute) // until it counts as dead
		}
		for n := range 7 {
			begun := time.Time{}
			process(fmt.Sprintf("w-%d", n), slowStore{storeOf(m), 15 * time.Second}, func() (waited bool) {
				m.set(func() {
					if m.begun > n && begun.IsZero() {
						begun = time.Now()
					}
				})
				return !begun.IsZero() && time.Since(begun) > 10*time.Second
			})
			m.set(func() {
				fail.Unequal(t, m.begun, n+1, "attempts of %d processes", n+1)
			})
		}
		process("last", storeOf(m), func() (written bool) {
			m.set(func() { written = !m.persisted[1].IsZero() })
			return written
		})
		if _, rejected := m.after(0); len(rejected) != 0 || m.persisted[1].IsZero() {
			t.Errorf("written %t, rejected %v", !m.persisted[1].IsZero(), rejected)
		}
	})
}
