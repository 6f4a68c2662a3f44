package admission

import (
	"context"
	"io"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Redis is restored from older data, and looks intact. A process finds that it has seen more. One that starts
// afterwards has not, but the database has more.
func TestRedisIsRestoredFromOlderData(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		s := newFixture(t, testkit.AnyRedis(t), 100)
		g := s.gate(nil)
		fail.NowIf(t, s.buy(g, 1, 11))
		before := s.client.HGetAll(t.Context(), s.keys.Meta).Val()
		fail.NowIf(t, s.buy(g, 2, 21))
		s.takeAll()
		fail.NowIf(t, s.client.HSet(t.Context(), s.keys.Meta, before).Err())
		fail.NowIf(t, s.client.HDel(t.Context(), s.keys.Users, "2").Err())
		if restarted {
			g = s.gate(nil)
		}
		fail.Unless(t, s.buy(g, 2, 22), order.ErrAlreadyOrdered, "a second order of a user that Redis had lost")
		fail.Unless(t, s.buy(g, 3, 31), nil, "a new user")
		s.takeAll()
		s.balanced(g, 3)
		if s.store.epochState.Epoch <= 2 {
			t.Error("the voucher was not closed in between")
		}
	}
}

// After the loss another process sells more, until Redis' sequence number is above the one that this process has seen.
// This process misses its own last order.
func TestDataLossIsDetectedAfterOthersSoldMore(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 100)
	mine, other := s.gate(nil), s.gate(nil)
	fail.NowIf(t, other.Open(t.Context(), &s.store.voucher))
	for user := range int64(5) {
		fail.NowIf(t, s.buy(mine, user+1, user+101))
	}
	entries := s.client.XRangeN(t.Context(), s.keys.Orders, "-", "+", 10).Val()
	for _, e := range entries[3:] { // the last two never were
		s.client.XDel(t.Context(), s.keys.Orders, e.ID)
		s.client.HDel(t.Context(), s.keys.Users, e.Values["u"].(string))
	}
	s.client.HSet(t.Context(), s.keys.Meta, "seq", 3, "stock", 97)
	for user := range int64(10) {
		fail.NowIf(t, s.buy(other, user+51, user+501))
	}
	finish := s.run()
	fail.Unless(t, s.buy(mine, 60, 1000), order.ErrAlreadyOrdered)
	finish()
	if s.store.epochState.Epoch <= 2 {
		t.Errorf("epoch %d: the loss was not noticed", s.store.epochState.Epoch)
	}
	s.balanced(mine, 13)
}

// A reservation that was given back is not lost data.
func TestReturnedReservationIsNoDataLoss(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 100)
	g := s.gate(nil)
	for user := range int64(5) {
		fail.NowIf(t, s.buy(g, user+1, user+101))
		fail.NowIf(t, fail.Of(s.take(t.Context(), true)))
		for range 3 { // decisions that accept nothing
			fail.NowIf(t, s.buy(g, 99, 999))
		}
		g.Check(t.Context())
	}
	fail.Unequal(t, s.store.epochState.Epoch, 2, "closed without a reason: epoch")
}

func TestRunDetectsDataLossWithoutBuyers(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	opened := make(chan int64, 9)
	g := s.gate(func(c *Config) {
		c.CheckEvery = 10 * time.Millisecond
		c.Observer.Opened = func(_ time.Duration, epoch int64) { opened <- epoch }
	})
	fail.NowIf(t, s.buy(g, 1, 11))
	s.takeAll()
	<-opened
	ctx, cancel := context.WithCancelCause(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	fail.NowIf(t, s.client.Del(ctx, s.keys.Meta, s.keys.Users).Err())
	fail.Unequal(t, <-opened, 4, "opened under epoch")
	cancel(io.EOF)
	fail.Unless(t, <-ran, io.EOF, "Run")
	s.balanced(g, 1)
}
