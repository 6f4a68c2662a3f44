package admission

import (
	"context"
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// A process that starts after the loss has not seen what the others saw, but the database has it.
func TestNewProcessFindsRedisBehindTheDatabase(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 100)
	rush(t, s, []*Gate{s.gate(nil)}, 10)
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.lose(t, 5)
	fresh := s.gate(nil)
	if err := s.buy(fresh, 10, 999); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order of a user that Redis had lost: %v", err)
	}
	s.balanced(fresh, 10)
}

// lose removes the last n accepted orders from Redis: users, stock and sequence.
func (s *fixture) lose(t *testing.T, n int64) {
	t.Helper()
	ctx := t.Context()
	seq, _ := s.client.HGet(ctx, s.keys.Meta, "seq").Int64()
	for user := range s.lastOrders(n) {
		if err := s.client.HDel(ctx, s.keys.Users, user).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.client.HSet(ctx, s.keys.Meta, "seq", seq-n).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.client.HIncrBy(ctx, s.keys.Meta, "stock", n).Err(); err != nil {
		t.Fatal(err)
	}
}

// lastOrders returns the users of the last n orders by id.
func (s *fixture) lastOrders(n int64) map[string]bool {
	last := map[string]bool{}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for user, o := range s.store.orders {
		later := int64(0)
		for _, other := range s.store.orders {
			if other.ID > o.ID {
				later++
			}
		}
		if later < n {
			last[strconv.FormatInt(user, 10)] = true
		}
	}
	return last
}

// After the loss another process sells more, until Redis' sequence number is above the one that this
// process has seen. This process misses its own last order.
func TestDataLossIsDetectedAfterOthersSoldMore(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 100)
	mine, other := s.gate(nil), s.gate(nil)
	if err := other.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	for user := range int64(5) {
		if err := s.buy(mine, user+1, user+101); err != nil {
			t.Fatal(err)
		}
	}
	entries := s.client.XRangeN(t.Context(), s.keys.Orders, "-", "+", 10).Val()
	for _, e := range entries[3:] { // the last two never were
		s.client.XDel(t.Context(), s.keys.Orders, e.ID)
		s.client.HDel(t.Context(), s.keys.Users, e.Values["u"].(string))
	}
	s.client.HSet(t.Context(), s.keys.Meta, "seq", 3, "stock", 97)
	for user := range int64(10) {
		if err := s.buy(other, user+51, user+501); err != nil {
			t.Fatal(err)
		}
	}
	finish := s.run()
	if err := s.buy(mine, 60, 1000); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Error(err)
	}
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
		if err := s.buy(g, user+1, user+101); err != nil {
			t.Fatal(err)
		}
		if _, err := s.take(t.Context(), true); err != nil {
			t.Fatal(err)
		}
		for range 3 { // decisions that accept nothing
			if err := s.buy(g, 99, 999); err != nil {
				t.Fatal(err)
			}
		}
		g.Check(t.Context())
	}
	if s.store.epochState.Epoch != 2 {
		t.Errorf("epoch %d: the voucher was closed without a reason", s.store.epochState.Epoch)
	}
}

func TestRunDetectsDataLossWithoutBuyers(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	opened := make(chan int64, 9)
	g := s.gate(func(c *Config) {
		c.CheckEvery = 10 * time.Millisecond
		c.Observer.Opened = func(_ time.Duration, epoch int64) { opened <- epoch }
	})
	if err := s.buy(g, 1, 11); err != nil {
		t.Fatal(err)
	}
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	<-opened
	ctx, cancel := context.WithCancelCause(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- g.Run(ctx) }()
	if err := s.client.Del(ctx, s.keys.Meta, s.keys.Users).Err(); err != nil {
		t.Fatal(err)
	}
	if epoch := <-opened; epoch != 4 {
		t.Errorf("opened under epoch %d, want 4", epoch)
	}
	cancel(io.EOF)
	if err := <-ran; !errors.Is(err, io.EOF) {
		t.Errorf("Run = %v, want the cause", err)
	}
	s.balanced(g, 1)
}
