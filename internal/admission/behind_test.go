package admission

import (
	"context"
	"fmt"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// The database is restored to a time before the voucher was rebuilt, or an older copy of it takes over. The voucher is
// closed above the epoch of Redis and opened again, by the next buyer or by the check; what was accepted is persisted.
func TestDatabaseIsAnEpochBehind(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 3} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d buckets, restarted %v", buckets, restarted), func(t *testing.T) {
				inBubble(t, 100, func(t *testing.T, s *fixture, _ *simulate.Redis) {
					s.split(buckets)
					g := s.gate(nil)
					fail.NowIf(t, s.buy(g, 1, 11))
					s.takeAll()
					fail.NowIf(t, s.client.Del(t.Context(), s.keys.Meta).Err())
					g.Check(t.Context())
					fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
					fail.NowIf(t, s.buy(g, 2, 21)) // accepted under epoch 4, and not persisted yet
					s.store.mu.Lock()
					fail.NowUnequal(t, s.store.epochState.Epoch, 4, "epoch")
					s.store.epochState.Epoch = 2
					s.store.mu.Unlock()
					if restarted {
						g = s.gate(nil)
					}
					finish := s.run()
					began := time.Now()
					g.Check(t.Context())
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					opened := g.Open(ctx, &s.store.voucher)
					if opened == nil {
						fail.NowIf(t, s.buy(g, 3, 31))
					}
					finish()
					fail.NowIf(t, opened)
					if took := time.Since(began); took > 10*time.Second || s.store.epochState.Epoch != 6 {
						t.Errorf("epoch %d after %v", s.store.epochState.Epoch, took)
					}
					fail.Unless(t, s.find(t.Context(), g, 2, 21), nil, "the order that was accepted before")
					s.balanced(g, 3)
				})
			})
		}
	}
}

// The database is restored to a time when the voucher was forgotten, and it was opened again since. The mark goes, and
// the voucher is forgotten again above the epoch of Redis.
func TestMarkOfForgettingIsOlderThanRedis(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 4} {
		f := newForgetting(t, buckets)
		f.end()
		for _, keys := range f.buckets() {
			fail.NowIf(t, f.client.HSet(t.Context(), keys.Meta, ledger.FieldEpoch, 6).Err())
		}
		f.store.mu.Lock()
		f.store.epochState.Epoch, f.store.epochState.Forgotten = 3, true // Redis has opened it twice since
		f.store.mu.Unlock()
		f.rounds(f.forgetter(), 8)
		if st := f.epochState(); !f.store.cleared || !st.Forgotten || st.Epoch != 7 || len(f.keysLeft()) > 0 {
			t.Errorf("%+v, cleared %v, keys %v", st, f.store.cleared, f.keysLeft())
		}
	}
}
