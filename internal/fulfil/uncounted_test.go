package fulfil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// uncountedStreams is a Redis that delivers pending entries and then dies: how often they were delivered, and whether
// replicas have them, is not known.
type uncountedStreams struct{ *fakeStreams }

func (m uncountedStreams) readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	found, _ := m.fakeStreams.readPending(ctx, consumer, s, after, count)
	return found, errRedisDown
}

// What is not known of entries is not assumed: they are written when they were read without an error. Otherwise the
// database could have orders that the replica that is promoted does not have.
func TestEntriesReadWithAnErrorAreNotWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(5)
		for _, h := range m.entries {
			h.consumer = "w-1"
		}
		w := newWorker(process(uncountedStreams{m}, storeOf(m), nil, m.stream), 0)
		for range 100 {
			w.runOnce(t.Context(), t.Context())
		}
		m.wantAfter(t, 0, 0)
	})
}

// Redis delivers pending entries, but does not tell how often it did before.
func TestDeliveriesThatAreDenied(t *testing.T) {
	inBubble(t, sale{}, func(t *testing.T, s *env) {
		s.accept(1, 3)
		st := newStream(s.prefix, 1, 0)
		s.pendingAt(st, "me", 10, 1)
		s.accept(1, 3)
		s.pendingAt(st, "dead", 10, 1)
		s.server.Refuse(func(command string, _ ...string) string {
			if command == "XPENDING" {
				return "NOPERM this user has no permissions"
			}
			return ""
		})
		r := newRedisStreams(s.client)
		for name, read := range map[string]func() ([]entry, error){
			"read": func() ([]entry, error) { return r.readPending(t.Context(), "me", st, "0", 10) },
			"claim idle ones": func() ([]entry, error) {
				entries, _, err := r.claimIdle(t.Context(), "me", st, 0, claimStart, 10)
				return entries, err
			},
			"claim from a dead process": func() ([]entry, error) { return r.claimFrom(t.Context(), "me", "dead", st, 0, 10) },
		} {
			if entries, err := read(); err == nil || len(entries) != 0 {
				t.Errorf("%s: %d entries, %v", name, len(entries), err)
			}
		}
	})
}

// The consumer has more entries between those that it claims. All that it claims were delivered before.
func deliveriesOfClaimedEntries(t *testing.T, s *env) {
	st := newStream(s.prefix, 1, 0)
	var ids []string
	for _, consumer := range []string{"dead", "me", "me", "me", "dead"} {
		s.acceptEach(1, 1)
		s.pendingAt(st, consumer, 10, 1)
		last, err := s.client.XRevRangeN(t.Context(), st.keys.Orders, "+", "-", 1).Result()
		s.must(err)
		ids = append(ids, last[0].ID)
	}
	entries, err := newRedisStreams(s.client).claimFrom(t.Context(), "me", "dead", st, 0, 10)
	if err != nil || len(entries) != 2 || entries[0].id != ids[0] || entries[1].id != ids[4] {
		t.Fatalf("claimed %v, %v", entries, err)
	}
	for _, e := range entries {
		if e.deliveries != 2 {
			t.Errorf("entry %s was delivered %d times, want 2", e.id, e.deliveries)
		}
	}
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
		attempt := func(w *worker, deadly bool, want error) {
			t.Helper()
			e := retryEntry{entry: m.entries[0].entry}
			if got, err := w.attempts.record(t.Context(), &e); got != deadly || !errors.Is(err, want) {
				t.Errorf("%s: deadly %t, %v; want %t, %v", w.name, got, err, deadly, want)
			}
		}
		after(first, second)
		attempt(first, false, nil)
		attempt(second, false, errAttempted)
		after(second)
		attempt(second, true, nil)
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

// errCut is the error of a read that fails partly.
var errCut = errors.New("the connection was cut")

// cutStreams lose replies: the entries are delivered, and the worker learns of none.
type cutStreams struct {
	*fakeStreams
	cut func() bool
}

func (m cutStreams) readNew(ctx context.Context, consumer string, streams []*stream, count int, block time.Duration, other <-chan struct{}) ([]entry, error) {
	found, err := m.fakeStreams.readNew(ctx, consumer, streams, count, block, other)
	if m.cut() {
		return nil, errCut
	}
	return found, err
}

// onceStore wants no order twice in a transaction.
type onceStore struct {
	fakeAdmissionStore
	t *testing.T
}

func (s onceStore) Persist(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
	seen := map[int64]bool{}
	for _, a := range batch {
		if seen[a.OrderID] {
			s.t.Errorf("order %d is twice in a batch of %d", a.OrderID, len(batch))
		}
		seen[a.OrderID] = true
	}
	return s.fakeAdmissionStore.Persist(ctx, batch)
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
					var cut atomic.Bool
					m := cutStreams{newFakeStreams(tc.failing), cut.Load}
					for range before {
						m.acceptOther()
					}
					// Those of the second voucher are written first, so that nothing is written once an order failed.
					defer m.run(t.Context(), m, firstFails{storeOf(m.fakeStreams), tc.err}, nil, m.second, m.stream)()
					if n := m.othersAfter(5 * time.Second); n != before { // by now the first voucher's orders are in hand
						t.Fatalf("%d of %d orders of the other voucher are written", n, before)
					}
					cut.Store(true)
					const more = 300
					m.set(func() {
						for range more {
							m.acceptOther()
						}
					})
					simulate.Sleep(5 * time.Second)
					cut.Store(false)
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
		reads := 0
		m := cutStreams{newFakeStreams(20), func() bool { reads++; return reads%3 == 0 }}
		m.dbErr = order.ErrUnavailable
		end := m.run(t.Context(), m, onceStore{storeOf(m.fakeStreams), t}, nil, m.stream, m.second)
		for range 600 {
			simulate.Sleep(100 * time.Millisecond) // the orders of the second voucher come when those of the first one fail
			m.set(func() {
				if len(m.entries) < 40 {
					m.acceptOther()
				}
			})
		}
		m.set(func() { m.dbErr = nil })
		m.wantAfter(t, time.Minute, 40)
		end()
		if !slices.ContainsFunc(m.offered, func(n int) bool { return n > 1 }) {
			t.Error("no order was written together with others")
		}
	})
}
