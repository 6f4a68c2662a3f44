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

// A cached refusal is returned without Redis and counted once. It does not use up the turn of the request
// that may ask Redis again.
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
		must(t, b.buy(t.Context(), 1))
		for user := range int64(1000) {
			if err := foretold(user + 2); !errors.Is(err, voucher.ErrSoldOut) {
				t.Fatal(err)
			}
		}
		if refused != 1000 {
			t.Errorf("counted %d refusals, want 1000", refused)
		}

		b.put(0, 1) // one was given back
		simulate.Sleep(b.config.RecheckEvery)
		for range 3 { // however many look, the turn stays
			wantErr(t, "when somebody is to look again", foretold(5000), nil)
		}
		wantErr(t, "whose turn it was", b.buy(t.Context(), 5000), nil)
		wantErr(t, "sold out again", foretold(5001), voucher.ErrSoldOut)
		// The end of the sale, by Redis' clock, needs no Redis.
		simulate.Sleep(2 * time.Hour)
		wantErr(t, "after the end", b.buy(t.Context(), 5002), voucher.ErrEnded)
		if calls := b.calls.Load(); calls != 2 {
			t.Errorf("Redis was asked %d times, want twice", calls)
		}
		other := b.store.voucher
		other.ID++
		wantErr(t, "of a voucher nobody has asked for", b.Refusal(&other, 1), nil)
	})
}
