package admission

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// countingStates are buckets of which every voucher is as the one, and counts how often they are read.
type countingStates struct {
	buckets
	keys  ledger.Keys
	reads atomic.Int64
}

func (c *countingStates) States(ctx context.Context, all []ledger.Keys) []ledger.State {
	c.reads.Add(int64(len(all)))
	return c.buckets.States(ctx, slices.Repeat([]ledger.Keys{c.keys}, len(all)))
}

// What it costs to check vouchers that nobody buys does not grow with their number. If Redis is emptied, all of them
// are closed by one check all the same.
func TestIdleVouchersAreCheckedInTurns(t *testing.T) {
	t.Parallel()
	for _, vouchers := range []int64{100, 1000} {
		inBubble(t, 5, func(t *testing.T, s *fixture, server *simulate.Redis) {
			c := s.config
			c.Store = sameForAll{s.store}
			states := &countingStates{buckets: newLedger(c), keys: s.keys}
			g := newGate(c.WithDefaults(), states)
			fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
			for n := range vouchers - 1 {
				other := s.store.voucher
				other.ID += n + 1
				fail.NowIf(t, g.Open(t.Context(), &other))
			}
			states.reads.Store(0)
			g.Check(t.Context())
			fail.Unequal(t, states.reads.Load(), idleChecks, "of %d vouchers were read", vouchers)
			checked := map[int64]bool{}
			for range vouchers / idleChecks {
				simulate.Sleep(time.Second)
				g.Check(t.Context())
			}
			for _, v := range g.all() {
				checked[v.id] = v.checked.Load() != 0
			}
			if len(checked) != int(vouchers) || slices.Contains(slices.Collect(maps.Values(checked)), false) {
				t.Error("some voucher was not checked in its turn")
			}

			_ = g.Close() // nothing is opened again
			server.Mini().FlushAll()
			g.Check(t.Context())
			for _, v := range g.all() {
				fail.NowUnequal(t, v.buckets[0].knownState().Epoch, 0, "the epoch of voucher %d, which is closed", v.id)
			}
		})
	}
}

// wokenWorkers note when they are woken, and how many orders their stream has then.
type wokenWorkers struct {
	workers
	s *fixture

	mu    sync.Mutex
	woken []time.Time
	left  []int64
}

func (w *wokenWorkers) Wake(voucherID int64, bucket int) {
	left := w.s.client.XLen(context.Background(), ledger.KeysOf(w.s.prefix, voucherID, bucket).Orders).Val()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.woken, w.left = append(w.woken, time.Now()), append(w.left, left)
}

// The workers are told before the first order is sent, so that none of them waits, and not more than once a second.
func TestGateWakesTheWorkers(t *testing.T) {
	t.Parallel()
	inBubble(t, 1000, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		w := &wokenWorkers{workers: workers{complete: true}, s: s}
		g := s.gate(func(c *Config) { c.Workers = w })
		simulate.Sleep(time.Second)
		for n := range int64(100) { // in ten seconds
			fail.Unless(t, g.Admit(t.Context(), &s.store.voucher, order.Order{ID: n + 1, UserID: n + 1, VoucherID: s.store.voucher.ID}), nil, "an order")
			simulate.Sleep(100 * time.Millisecond)
		}
		if len(w.woken) != 10 || w.left[0] != 0 {
			t.Errorf("woken at %v, with %v orders in the stream", w.woken, w.left)
		}
	})
}
