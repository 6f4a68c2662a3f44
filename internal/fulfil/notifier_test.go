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

// mustAwait waits for an order with a limit that no test reaches.
func mustAwait(t *testing.T, f *Fulfiller, a order.Accepted) {
	t.Helper()
	began := time.Now()
	err := f.Await(t.Context(), order.Order{ID: a.OrderID, VoucherID: a.VoucherID}, 20*time.Second)
	if took := time.Since(began); err != nil || took > 10*time.Second {
		t.Errorf("Await: %v, after %v", err, took)
	}
}

// Await returns for an order that another process persists, for one of its own process, and
// for one that was final before, whether confirmed or rejected.
func TestAwait(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		s.vouchers = append(s.vouchers, 2)
		s.open(2)
		elsewhere, stop := s.run(func(c *Config) { c.Workers = 1 })
		stop()
		none := &listingStore{AdmissionStore: s.db.AdmissionStore()} // lists no vouchers, so this process persists nothing
		waiter, err := New(s.config(func(c *Config) { c.Store = none }))
		s.must(err)
		background(t, waiter)

		s.accept(1, 3)
		rejected := s.accept(2, 1)[0]
		s.makeEpochStale(2)
		var all sync.WaitGroup
		for _, a := range s.accepted {
			all.Go(func() { mustAwait(t, waiter, a) })
			all.Go(func() { mustAwait(t, waiter, a) }) // two waiters for one order
		}
		background(t, newFulfiller(elsewhere.config, elsewhere.reader))
		all.Wait()
		if o, err := s.db.Orders().Order(t.Context(), rejected.OrderID); err != nil || o.Status != order.Rejected {
			t.Errorf("%+v, %v", o, err)
		}
		mustAwait(t, waiter, rejected)
		waiter.notifier.mu.Lock()
		waiting := len(waiter.notifier.waiting)
		waiter.notifier.mu.Unlock()
		if waiting != 0 {
			t.Errorf("%d orders still have waiters", waiting)
		}
		s.checkFinalState()
	})
}

func TestAwaitInTheSameProcess(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 1000)
	f, _ := s.run(nil)
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { mustAwait(t, f, s.accept(1, 1)[0]) })
	}
	all.Wait()
	s.checkFinalState()
}

func TestAwaitEnds(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 10)
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
	if len(f.notifier.waiting) != 0 {
		t.Errorf("%d orders still have waiters", len(f.notifier.waiting))
	}
}

// The subscription's connection is lost. After the reconnection the order is read from the
// database, because its announcement may have been missed.
func TestAwaitAfterALostConnection(t *testing.T) {
	server := testkit.NewRedis(t)
	s := openEnv(t, clientOf(t, server.Addr()), testkit.MariaDB(t), 1, 100)
	waiter, err := New(s.config(func(c *Config) { c.Store = &listingStore{AdmissionStore: s.db.AdmissionStore()} }))
	s.must(err)
	background(t, waiter)
	a := s.accept(1, 1)[0]
	var waiting sync.WaitGroup
	waiting.Go(func() { mustAwait(t, waiter, a) })
	testkit.Until(t, "the channel is subscribed", func() bool {
		n, err := s.client.PubSubNumSub(t.Context(), newStream(s.prefix, 1, 0).finalChannel).Result()
		return err == nil && n[newStream(s.prefix, 1, 0).finalChannel] == 1
	})
	// This is not announced, as if it happened while the connection was lost.
	_, err = s.db.AdmissionStore().Persist(t.Context(), []order.Accepted{a})
	s.must(err)
	s.must(s.client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	waiting.Wait()
}

// A channel without waiters is unsubscribed after a while, and subscribed again when needed.
func TestIdleChannelsAreUnsubscribed(t *testing.T) {
	t.Parallel()
	n := newNotifier(clientOf(t, miniredis.RunT(t).Addr()))
	subscription := n.client.Subscribe(t.Context())
	defer subscription.Close()
	w := n.wait("c", 1)
	n.subscribe(t.Context(), subscription)
	n.leave(w)
	n.unsubscribe(t.Context(), subscription)
	if len(n.channels) != 1 {
		t.Error("unsubscribed at once")
	}
	n.channels["c"].idleSince = time.Now().Add(-2 * unsubscribeAfter)
	n.unsubscribe(t.Context(), subscription)
	if len(n.channels) != 0 {
		t.Error("not unsubscribed")
	}
	<-n.changed
	n.wait("c", 2)
	if <-n.changed; n.channels["c"].requested {
		t.Error("not subscribed again")
	}
}
