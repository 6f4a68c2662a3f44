package fulfil

import (
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// Entries that are pending at another consumer are claimed after ClaimIdle and not before, also when a page of younger
// entries precedes them.
func TestClaimExaminesAllPages(t *testing.T) {
	bubble(t, func(t *testing.T) {
		m := newFakeStreams(25)
		for n, h := range m.entries {
			h.consumer, h.deliveredAt = "other", time.Now()
			if n < 20 {
				h.deliveredAt = h.deliveredAt.Add(24 * time.Hour) // delivered recently: not idle yet
			}
		}
		began := time.Now()
		m.heartbeats["fulfil:alive:other"] = heartbeat{"x", began.Add(time.Hour)}
		m.work(t, func(c *Config) { c.ClaimIdle, c.ClaimEvery = time.Minute, 20*time.Second }, func() {
			simulate.Sleep(59 * time.Second)
			synctest.Wait()
			m.set(func() {
				fail.Unequal(t, len(m.persisted), 0, "entries were claimed too early")
			})
			simulate.Sleep(22 * time.Second)
			m.mu.Lock()
			defer m.mu.Unlock()
			if len(m.persisted) != 5 || m.persisted[21].Sub(began) < time.Minute {
				t.Errorf("%d claimed: %v", len(m.persisted), m.persisted)
			}
		})
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]time.Duration{1: 50 * time.Millisecond, 3: 200 * time.Millisecond, 7: 2 * time.Second, 1000: 2 * time.Second} {
		if got := backoff(n, 50*time.Millisecond, 2*time.Second); got > want || got < want/2-1 {
			t.Errorf("after %d failures: %v, want %v less some", n, got, want)
		}
	}
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
		fail.Unequal(t, e.deliveries, 2, "deliveries of entry %s", e.id)
	}
}
