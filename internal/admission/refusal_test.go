package admission

import (
	"errors"
	"testing"
	"testing/synctest"

	"seckill/internal/simulate"
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
		if err := foretold(1); err != nil {
			t.Fatalf("before anybody has bought: %v", err)
		}
		if err := b.buy(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		for user := range int64(1000) {
			if err := foretold(user + 2); !errors.Is(err, voucher.ErrSoldOut) {
				t.Fatal(err)
			}
		}
		if refused != 1000 {
			t.Errorf("counted %d refusals, want 1000", refused)
		}

		b.fake.mu.Lock()
		*b.fake.stock() = 1 // one was given back
		b.fake.mu.Unlock()
		simulate.Sleep(b.config.RecheckEvery)
		for range 3 { // however many look, the turn stays
			if err := foretold(5000); err != nil {
				t.Errorf("when somebody is to look again: %v", err)
			}
		}
		if err := b.buy(t.Context(), 5000); err != nil {
			t.Errorf("whose turn it was: %v", err)
		}
		if calls := b.fake.calls.Load(); calls != 2 {
			t.Errorf("Redis was asked %d times, want twice", calls)
		}
		if err := foretold(5001); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("sold out again: %v", err)
		}
		other := b.store.voucher
		other.ID++
		if err := b.Refusal(&other, 1); err != nil {
			t.Errorf("of a voucher nobody has asked for: %v", err)
		}
	})
}
