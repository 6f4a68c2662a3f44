package admission

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestAnswers(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *fixture, _ *simulate.Redis) {
		g := s.gate(func(c *Config) { c.MaxPending = 2 })
		for _, c := range []struct {
			name     string
			user, id int64
			want     error
		}{
			{"the first order", 1, 11, nil},
			{"the same again", 1, 11, nil},
			{"another one of the user", 1, 12, order.ErrAlreadyOrdered},
			{"the second user", 2, 21, nil},
			{"too many on their way", 3, 31, order.ErrOverloaded},
			{"known without asking", 4, 41, order.ErrOverloaded},
		} {
			fail.Unless(t, s.buy(g, c.user, c.id), c.want, "%s", c.name)
		}
		waits := s.gate(func(c *Config) { c.Workers = workers{err: context.Canceled} })
		fail.Unless(t, waits.Await(t.Context(), order.Order{ID: 11}, time.Second), context.Canceled, "what the workers say")
		s.takeAll()
		until(t, "an order after the others were persisted", func() bool { // the refusal is cached for a moment
			err := s.buy(g, 3, 31)
			if err != nil && !errors.Is(err, order.ErrOverloaded) {
				t.Fatalf("after the orders were persisted: %v", err)
			}
			return err == nil
		})
		fail.Unless(t, s.buy(g, 4, 41), voucher.ErrSoldOut, "after the last one")
		// Stock of an order that could not be carried out comes back, to one buyer.
		if n, err := s.take(t.Context(), true); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		until(t, "an order after one was given back", func() bool { // the refusal is cached for a moment
			err := s.buy(g, 5, 51)
			if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
				t.Fatalf("after one was given back: %v", err)
			}
			return err == nil
		})
		fail.Unless(t, s.buy(s.gate(nil), 3, 32), voucher.ErrSoldOut, "the user whose order was rejected")
	})
}

// Connections are cut again and again. A buyer whose outcome is unknown does what the service does: looks the order up,
// and sends it again with the same id.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	inBubble(t, 300, func(t *testing.T, s *fixture, server *simulate.Redis) {
		const stock, buyers, each = 300, 20, 20
		link := simulate.NewLink()
		link.Delay(time.Millisecond, time.Millisecond)
		g := s.gate(func(c *Config) {
			c.Client, c.AttemptTimeout, c.DecisionTimeout = through(t, link, server), 8*time.Millisecond, 8*time.Millisecond
		})
		fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
		finish := s.run()
		ctx, cancel := context.WithCancel(t.Context())
		var cutting sync.WaitGroup
		cutting.Go(func() {
			for ctx.Err() == nil {
				link.Cut()
				link.Restore()
				simulate.Sleep(30 * time.Millisecond)
			}
		})
		var sold, repeats atomic.Int64
		var wg sync.WaitGroup
		for b := range int64(buyers) {
			wg.Go(func() {
				for n := range int64(each) {
					user := b*each + n + 1
					err := s.buy(g, user, 100_000+user)
					for errors.Is(err, order.ErrUnavailable) {
						repeats.Add(1)
						simulate.Sleep(time.Millisecond) // as clients do
						if err = s.find(ctx, g, user, 100_000+user); errors.Is(err, order.ErrNotFound) {
							err = s.buy(g, user, 100_000+user)
						}
					}
					if err == nil {
						sold.Add(1)
					} else if !errors.Is(err, voucher.ErrSoldOut) {
						t.Errorf("user %d: %v", user, err)
					}
				}
			})
		}
		wg.Wait()
		cancel()
		cutting.Wait()
		finish()
		if repeats.Load() == 0 {
			t.Error("no buyer had to repeat: this shows nothing")
		}
		if sold.Load() != stock || len(s.store.rejected) != 0 {
			t.Errorf("%d told accepted, %d rejected; want %d and 0", sold.Load(), len(s.store.rejected), stock)
		}
		s.balanced(s.gate(nil), stock)
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := newFixture(t, at("127.0.0.1:1"), 1).config
	for _, tc := range []struct {
		change func(*Config)
		want   string // in the error; "" is none
	}{
		{func(c *Config) { c.Store = nil }, "incomplete"},
		{func(c *Config) { c.AttemptTimeout = time.Microsecond }, "AttemptTimeout"},
		{func(c *Config) { c.DecisionTimeout = time.Millisecond }, "DecisionTimeout"},
		{func(c *Config) { c.OpenWait = -1 }, "must not be negative"},
		{func(c *Config) { c.MaxPending = -1 }, "MaxPending and MaxInF"},
		{func(c *Config) { c.WaitReplicas = -1 }, "WaitReplicas"},
		{func(c *Config) { c.WaitReplicas, c.WaitTimeout = 1, time.Microsecond }, "WaitTimeout"},
		{func(c *Config) { c.WaitReplicas, c.AttemptTimeout, c.WaitTimeout = 1, time.Second, time.Second }, "WaitTimeout"},
		{func(c *Config) { c.WaitReplicas, c.AttemptTimeout = 1, time.Millisecond }, "WaitTimeout"}, // half of it is too little
		{func(c *Config) { c.AttemptTimeout = time.Millisecond }, ""},                               // and nobody waits
		{func(c *Config) { c.WaitReplicas = 1 }, ""},
	} {
		c := good
		tc.change(&c)
		c = c.WithDefaults()
		if err := c.Validate(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", c, err, tc.want)
		}
	}
	good.Store = nil
	if _, err := New(good); err == nil {
		t.Error("New takes what is incomplete")
	}
}
