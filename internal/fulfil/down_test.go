package fulfil

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// A stop in the middle of a batch: the batch is finished and acknowledged, nothing more is
// read, and the consumer leaves the group.
func TestGracefulStop(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 1000)
	s.perEntry = 1
	s.accept(1, 30)
	began, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	slow.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		once.Do(func() { close(began) })
		<-proceed
		return slow.AdmissionStore.Persist(ctx, batch)
	}
	var persisted atomic.Int64
	_, stop := s.run(func(c *Config) {
		c.Store, c.BatchSize, c.Workers = slow, 10, 1
		c.Observer.Persisted = func(time.Duration) { persisted.Add(1) }
	})
	<-began
	var stopped sync.WaitGroup
	stopped.Go(stop)
	time.Sleep(50 * time.Millisecond) // lets the stop arrive; the result does not depend on it
	close(proceed)
	stopped.Wait()
	if n := s.client.XLen(t.Context(), s.keys(1).Orders).Val(); n == 30 || n == 0 || persisted.Load() != 30-n {
		t.Errorf("%d entries are left of 30, %d were persisted", n, persisted.Load())
	}
	pending, err := s.client.XPending(t.Context(), s.keys(1).Orders, ledger.Group).Result()
	if err != nil || pending.Count != 0 {
		t.Errorf("pending %+v, %v", pending, err)
	}
	if all := s.client.XInfoConsumers(t.Context(), s.keys(1).Orders, ledger.Group).Val(); len(all) != 0 {
		t.Errorf("consumers %+v", all)
	}
	s.run(nil)
	s.checkFinalState()
}

// A stop during an outage of the database ends within FinishTimeout, and no order is lost.
func TestStopDuringAnOutage(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	s.accept(1, 10)
	tried := make(chan struct{}, 1)
	_, stop := s.run(func(c *Config) {
		c.FinishTimeout = 100 * time.Millisecond
		c.Store = &fakeStore{AdmissionStore: s.db.AdmissionStore(), persist: func(context.Context, []order.Accepted) ([]order.Status, error) {
			wake(tried)
			return nil, order.ErrUnavailable
		}}
	})
	<-tried
	watch := testkit.StartStopwatch()
	stop()
	if took := watch.Stop(); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	s.run(func(c *Config) { c.ClaimIdle = 20 * time.Millisecond })
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// An outage of the database costs no order.
func TestDatabaseDownAndBack(t *testing.T) {
	t.Parallel()
	server := testkit.NewMariaDB(t)
	s := openEnv(t, clientOf(t, testkit.Redis(t).Addr()), server.Database(t), 2, 1000)
	for range 2 {
		s.run(func(c *Config) {
			c.ClaimIdle, c.MaxDeliveries, c.MaxFailures, c.MaxAttempts = 200*time.Millisecond, 1, 1, 1
		})
	}
	s.accept(1, 50)
	s.waitUntilEmpty()
	server.Kill()
	s.accept(1, 50)
	s.accept(2, 50)
	time.Sleep(2 * time.Second) // the length of the outage
	server.Restart()
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// Redis loses everything, the consumer group included. Orders accepted after that are persisted.
func TestRedisEmptied(t *testing.T) {
	server := testkit.NewRedis(t)
	s := openEnv(t, clientOf(t, server.Addr()), testkit.MariaDB(t), 2, 100)
	s.run(nil)
	s.accept(1, 10)
	s.checkFinalState()
	s.must(s.client.FlushAll(t.Context()).Err())
	for _, id := range s.vouchers { // rebuilt
		s.must(s.client.HSet(t.Context(), s.keys(id).Meta, ledger.FieldStock, 90, ledger.FieldEpoch, 2).Err())
	}
	s.must(s.client.HIncrBy(t.Context(), s.keys(2).Meta, ledger.FieldStock, 10).Err())
	for _, a := range s.accepted {
		s.must(s.client.HSet(t.Context(), s.keys(1).Users, a.UserID, ledger.Reserved(a.OrderID, a.Key)).Err())
	}
	s.acceptAnyway(1, 10)
	s.acceptAnyway(2, 10)
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// Redis is killed under load and restarts with all its data.
func TestRedisKilledAndBack(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := openEnv(t, clientOf(t, server.Addr()), testkit.MariaDB(t), 2, 1000)
	s.run(func(c *Config) { c.BatchSize, c.ClaimIdle = 5, 300*time.Millisecond })
	for range 3 {
		s.accept(1, 40)
		s.accept(2, 40)
		server.Kill()
		server.Restart()
		// After many failures go-redis refuses commands by itself until it has connected again.
		testkit.Until(t, "the client has connected again", func() bool { return s.client.Ping(t.Context()).Err() == nil })
	}
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}
