package fulfil

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// await waits for an order with a limit that no test reaches.
func (s *env) await(f *Fulfiller, a contract.Accepted) {
	s.t.Helper()
	began := time.Now()
	err := f.Await(s.t.Context(), order.Order{ID: a.OrderID, VoucherID: a.VoucherID}, time.Minute)
	if took := time.Since(began); err != nil || took >= time.Minute {
		s.t.Errorf("Await: %v, after %v", err, took)
	}
}

// waiterAlone returns a process that persists nothing, since it finds no vouchers.
func (s *env) waiterAlone() *Fulfiller {
	s.t.Helper()
	f, _ := s.run(func(c *Config) { c.Store = &listingStore{AdmissionStore: s.db.AdmissionStore()} })
	return f
}

// Await returns for an order that another process persists, for one of its own process, and for one that was final
// before, whether confirmed or rejected.
func awaitElsewhere(t *testing.T, s *env) {
	waiter := s.waiterAlone()
	s.accept(1, 3)
	rejected := s.accept(2, 1)[0]
	s.makeEpochStale(2)
	var all sync.WaitGroup
	for _, a := range s.accepted {
		all.Go(func() { s.await(waiter, a) })
		all.Go(func() { s.await(waiter, a) }) // two waiters for one order
	}
	same, _ := s.run(nil)
	all.Wait()
	if o, err := s.db.Orders().Order(t.Context(), rejected.OrderID); err != nil || o.Status != order.Rejected {
		t.Errorf("%+v, %v", o, err)
	}
	s.await(waiter, rejected)
	for range 20 {
		all.Go(func() { s.await(same, s.accept(1, 1)[0]) })
	}
	all.Wait()
	for _, f := range []*Fulfiller{waiter, same} {
		f.notifier.mu.Lock()
		waiting := len(f.notifier.waiting)
		f.notifier.mu.Unlock()
		fail.Unequal(t, waiting, 0, "orders still have waiters")
	}
	s.checkFinalState()
}

// Await ends with its limit or with the context, also after the stop.
func TestAwaitEnds(t *testing.T) {
	inBubble(t, sale{}, func(t *testing.T, s *env) {
		f, stop := s.run(nil)
		nobodys := order.Order{ID: 404, VoucherID: 1}
		ends := func(ctx context.Context, limit, after time.Duration, want error) {
			t.Helper()
			began := time.Now()
			if err := f.Await(ctx, nobodys, limit); !errors.Is(err, want) || time.Since(began) != after {
				t.Errorf("%v after %v, want %v after %v", err, time.Since(began), want, after)
			}
		}
		ends(t.Context(), 30*time.Millisecond, 30*time.Millisecond, nil)
		ends(t.Context(), 0, 0, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		ends(ctx, time.Minute, 20*time.Millisecond, context.DeadlineExceeded)
		stop()
		ends(t.Context(), 20*time.Millisecond, 20*time.Millisecond, nil)
		fail.Unequal(t, len(f.notifier.waiting), 0, "orders still have waiters")
	})
}

// The subscription's connection is lost. After the reconnection the order is read from the database, because its
// announcement may have been missed.
func TestAwaitAfterALostConnection(t *testing.T) {
	inBubble(t, sale{}, func(t *testing.T, s *env) {
		waiter := s.waiterAlone()
		a := s.accept(1, 1)[0]
		var waiting sync.WaitGroup
		waiting.Go(func() { s.await(waiter, a) })
		channel := newStream(s.prefix, 1, 0).finalChannel
		s.until("the channel is subscribed", func() bool {
			return s.client.PubSubNumSub(t.Context(), channel).Val()[channel] == 1
		})
		s.server.Stop()
		// This is not announced.
		_, err := s.db.AdmissionStore().Persist(t.Context(), []contract.Accepted{a})
		s.must(err)
		s.server.Start()
		waiting.Wait()
	})
}

// A channel without waiters is unsubscribed after a while, and subscribed again when needed.
func TestIdleChannelsAreUnsubscribed(t *testing.T) {
	inBubble(t, sale{}, func(t *testing.T, s *env) {
		f, _ := s.run(func(c *Config) { c.Block, c.DiscoverEvery = 10*time.Second, 10*time.Second })
		channel := newStream(s.prefix, 1, 0).finalChannel
		subscribed := func() int64 { return s.client.PubSubNumSub(t.Context(), channel).Val()[channel] }
		for range 2 {
			s.await(f, s.accept(1, 1)[0])
			simulate.Sleep(unsubscribeAfter - time.Second)
			fail.Unequal(t, subscribed(), 1, "unsubscribed too early")
			simulate.Sleep(unsubscribeAfter + time.Second)
			fail.Unequal(t, subscribed(), 0, "not unsubscribed")
		}
	})
}
