package fulfil

import (
	"testing"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A promoted replica lacks the latest acknowledgements: entries that the worker has finished are pending again under
// its name. No call of the worker fails.
func TestLostAcknowledgements(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(5)
		m.work(t, nil, func() {
			simulate.Sleep(10 * time.Second)
			m.set(func() {
				for _, h := range m.entries {
					if !h.acknowledged {
						t.Fatalf("entry %s is not acknowledged", h.id)
					}
					h.acknowledged = false
				}
			})
			simulate.Sleep(time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, h := range m.entries {
				if !h.acknowledged {
					t.Errorf("entry %s is still pending after a second", h.id)
				}
			}
		})
	})
}

// The entries in a worker's retry queue are pending under its name. They do not cause a replay.
func TestRetryQueueCausesNoReplay(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(1)
		m.work(t, nil, func() {
			simulate.Sleep(time.Second)
		})
		m.entries[0].acknowledged = false
		f := process(m, storeOf(m), nil, m.stream)
		w := newWorker(f, 0)
		w.updateStreams()
		w.streams[m.stream].replay = false
		f.liveness.beat(t.Context())
		w.retries.add(retryEntry{entry: m.entries[0].entry}, time.Hour)
		if w.recoverPending(t.Context(), t.Context()); w.streams[m.stream].replay {
			t.Error("an entry of the retry queue causes a replay")
		}
		clear(w.retries.entries)
		if w.recoverPending(t.Context(), t.Context()); w.streams[m.stream].replay {
			t.Error("the same count of pending entries is used twice")
		}
		f.liveness.beat(t.Context())
		if w.recoverPending(t.Context(), t.Context()); !w.streams[m.stream].replay {
			t.Error("an unknown entry causes no replay")
		}
	})
}

// The entries of a dead process are claimed as soon as it is known to be dead. Those of a live process are not,
// although its name begins like the other's.
func TestEntriesOfADeadProcess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(10)
		began := time.Now()
		for n, h := range m.entries {
			h.consumer, h.deliveredAt = []string{"api-1-1", "api-10-1"}[n%2], began
		}
		m.heartbeats["fulfil:alive:api-1"], m.heartbeats["fulfil:alive:api-10"] = heartbeat{"x", began.Add(500 * time.Millisecond)}, heartbeat{"x", began.Add(time.Hour)}
		m.work(t, nil, func() {
			simulate.Sleep(2200 * time.Millisecond) // the entries may be claimed 1.5 s after their delivery
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, h := range m.entries {
				if dead := h.order.OrderID%2 == 1; h.acknowledged != dead {
					t.Errorf("entry %s, acknowledged: %v", h.id, h.acknowledged)
				}
			}
		})
	})
}

// A process that dies leaves its heartbeat key behind, which goes by itself. One that takes over the name of a dead one
// is another incarnation, and attempts of the dead one are its own.
func TestHeartbeatKeysExpire(t *testing.T) {
	bubble(t, func(t *testing.T) {
		client := simulate.NewRedis(t).Client(t)
		beat := func(incarnation string) *Fulfiller {
			f := newFulfiller(Config{Name: "dies", Store: fakeAdmissionStore{}, Client: client}.withDefaults(), newRedisStreams(client))
			f.liveness.incarnation = incarnation
			f.liveness.beat(t.Context())
			return f
		}
		f := beat("a")
		for _, incarnation := range []string{"a", "a", "b", "b"} { // set, renewed, and taken over
			simulate.Sleep(f.liveness.ttl() / 2)
			beat(incarnation)
			alive, err := f.reader.alive(t.Context(), []string{f.liveness.key("dies"), f.liveness.key("other")})
			if err != nil || alive[f.liveness.key("dies")] != incarnation || alive[f.liveness.key("other")] != "" {
				t.Errorf("%v, %v; want %s", alive, err, incarnation)
			}
			if ttl := client.PTTL(t.Context(), f.liveness.key("dies")).Val(); ttl != f.liveness.ttl() || ttl > 2*time.Second {
				t.Errorf("the key lives for %v, want %v", ttl, f.liveness.ttl())
			}
		}
		for _, test := range []struct {
			incarnation string
			renewed     bool
		}{{"b", true}, {"c", false}, {"c", true}} {
			renewed, err := f.reader.setHeartbeat(t.Context(), f.liveness.key("dies"), test.incarnation, f.liveness.ttl())
			if err != nil || renewed != test.renewed {
				t.Errorf("renewed by %s: %t, %v", test.incarnation, renewed, err)
			}
		}
		simulate.Sleep(f.liveness.ttl())
		fail.Unequal(t, client.Exists(t.Context(), f.liveness.key("dies")).Val(), 0, "keys of a dead process")
	})
}

// A process took over the name of a dead one, and Redis' memory is full: it can renew the key and not set its own
// incarnation. The process still looks for entries that nobody works on.
func TestHeartbeatWithoutMemory(t *testing.T) {
	t.Parallel()
	server := simulate.NewRedis(t)
	client := server.Client(t)
	f := newFulfiller(Config{Name: "again", Store: fakeAdmissionStore{}, Client: client}.withDefaults(), newRedisStreams(client))
	f.streams.setWatched(nil)
	fail.NowIf(t, client.Set(t.Context(), f.liveness.key("again"), "former", time.Minute).Err())
	server.Refuse(func(command string, _ ...string) string {
		if command == "SET" {
			return "OOM command not allowed when used memory > 'maxmemory'."
		}
		return ""
	})
	f.liveness.beat(t.Context())
	if f.liveness.pending.Load() == nil || f.liveness.since.Load() != nil {
		t.Errorf("pending entries %v, heartbeat since %v", f.liveness.pending.Load(), f.liveness.since.Load())
	}
}
