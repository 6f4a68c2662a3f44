package fulfil

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// awaited waits for an order with a limit that no test reaches.
func awaited(t *testing.T, f *Fulfiller, a order.Accepted) {
	t.Helper()
	begun := time.Now()
	err := f.Await(t.Context(), order.Order{ID: a.OrderID, VoucherID: a.VoucherID}, 20*time.Second)
	if took := time.Since(begun); err != nil || took > 10*time.Second {
		t.Errorf("Await: %v, after %v", err, took)
	}
}

// Whoever waits hears of an order that another process persists, and of one of its own,
// confirmed or rejected, and of one that was final before.
func TestAwait(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		s.vouchers = append(s.vouchers, 2)
		s.open(2)
		elsewhere, stop := s.run(func(c *Config) { c.Workers = 1 })
		stop()
		none := &listing{Shelf: s.db.Shelf()} // this one persists nothing
		waits, err := New(s.config(func(c *Config) { c.Shelf = none }))
		s.must(err)
		background(t, waits)

		s.accept(1, 3)
		rejected := s.accept(2, 1)[0]
		s.outdate(2)
		var all sync.WaitGroup
		for _, a := range s.accepted {
			all.Go(func() { awaited(t, waits, a) })
			all.Go(func() { awaited(t, waits, a) }) // twice the same
		}
		background(t, newFulfiller(elsewhere.config, elsewhere.inbox))
		all.Wait()
		if o, err := s.db.Orders().Order(t.Context(), rejected.OrderID); err != nil || o.Status != order.Rejected {
			t.Errorf("%+v, %v", o, err)
		}
		awaited(t, waits, rejected)
		if len(waits.bell.waiting) != 0 {
			t.Errorf("%d still wait", len(waits.bell.waiting))
		}
		s.atRest()
	})
}

func TestAwaitInTheSameProcess(t *testing.T) {
	s := newShop(t, 1, 1000)
	f, _ := s.run(nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { awaited(t, f, s.accept(1, 1)[0]) })
	}
	all.Wait()
	s.atRest()
}

func TestAwaitEnds(t *testing.T) {
	s := newShop(t, 1, 10)
	f, stop := s.run(nil)
	nobodys := order.Order{ID: 404, VoucherID: 1}
	if err := f.Await(t.Context(), nobodys, 30*time.Millisecond); err != nil {
		t.Error(err)
	}
	if err := f.Await(t.Context(), nobodys, 0); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := f.Await(ctx, nobodys, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	stop()
	if err := f.Await(t.Context(), nobodys, 20*time.Millisecond); err != nil {
		t.Error(err)
	}
	if len(f.bell.waiting) != 0 {
		t.Errorf("%d still wait", len(f.bell.waiting))
	}
}

// The connection that hears is lost; what is said meanwhile is read from the database
// once there is another one.
func TestAwaitOverALostConnection(t *testing.T) {
	server := testkit.NewRedis(t)
	s := openShop(t, clientOf(t, server.Addr()), testkit.MariaDB(t), 1, 100)
	waits, err := New(s.config(func(c *Config) { c.Shelf = &listing{Shelf: s.db.Shelf()} }))
	s.must(err)
	background(t, waits)
	a := s.accept(1, 1)[0]
	var waiting sync.WaitGroup
	waiting.Go(func() { awaited(t, waits, a) })
	eventually(t, "the channel is heard", func() bool {
		n, err := s.client.PubSubNumSub(t.Context(), newStream(s.prefix, 1, 0).done).Result()
		return err == nil && n[newStream(s.prefix, 1, 0).done] == 1
	})
	// Nothing is announced of this: it could have been while the connection was gone.
	_, err = s.db.Shelf().Persist(t.Context(), []order.Accepted{a})
	s.must(err)
	s.must(s.client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	waiting.Wait()
}

// A channel that nobody waits for is given up, and taken up again.
func TestChannelsAreGivenUp(t *testing.T) {
	b := newBell(clientOf(t, miniredis.RunT(t).Addr()))
	subscription := b.client.Subscribe(t.Context())
	defer subscription.Close()
	w := b.wait("c", 1)
	b.subscribe(t.Context(), subscription)
	b.leave(w)
	b.unsubscribe(t.Context(), subscription)
	if len(b.channels) != 1 {
		t.Error("given up at once")
	}
	b.channels["c"].idleSince = time.Now().Add(-2 * deafAfter)
	b.unsubscribe(t.Context(), subscription)
	if len(b.channels) != 0 {
		t.Error("not given up")
	}
	<-b.changed
	b.wait("c", 2)
	if <-b.changed; b.channels["c"].asked {
		t.Error("not asked for again")
	}
}
