package admission

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// A cached refusal is returned without Redis and counted once. It does not use up the turn of the request that may ask
// Redis again.
func TestRefusalFromMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		b := newBubble(t, 1, func(c *Config) {
			c.Observer.Decided = func(err error) {
				if errors.Is(err, voucher.ErrSoldOut) {
					refused++
				}
			}
		})
		defer b.Close()
		foretold := func(user int64) error { return b.Refusal(&b.store.voucher, user) }
		fail.NowIf(t, foretold(1), "before anybody has bought")
		fail.NowIf(t, b.buy(t.Context(), 1))
		for user := range int64(1000) {
			fail.NowUnless(t, foretold(user+2), voucher.ErrSoldOut)
		}
		fail.Unequal(t, refused, 1000, "refusals that were counted")

		b.put(0, 1) // one was given back
		simulate.Sleep(b.config.RecheckEvery)
		for range 3 { // however many look, the turn stays
			fail.Unless(t, foretold(5000), nil, "when somebody is to look again")
		}
		fail.Unless(t, b.buy(t.Context(), 5000), nil, "whose turn it was")
		fail.Unless(t, foretold(5001), voucher.ErrSoldOut, "sold out again")
		// The end of the sale, by Redis' clock, needs no Redis.
		simulate.Sleep(2 * time.Hour)
		fail.Unless(t, b.buy(t.Context(), 5002), voucher.ErrEnded, "after the end")
		fail.Unequal(t, b.calls.Load(), 2, "times that Redis was asked")
		other := b.store.voucher
		other.ID++
		fail.Unless(t, b.Refusal(&other, 1), nil, "of a voucher nobody has asked for")
	})
}
