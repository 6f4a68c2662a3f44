package fulfil

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

func TestPersistsAcceptedOrders(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		var batches, orders, deadLetters atomic.Int64
		s.accept(1, 30)
		_, stop := s.run(func(c *Config) {
			c.BatchSize = 20
			c.Observer = Observer{
				Batch:      func(int, time.Duration, error) { batches.Add(1) },
				Persisted:  func(time.Duration) { orders.Add(1) },
				DeadLetter: func(Reason) { deadLetters.Add(1) },
			}
		})
		s.waitUntilEmpty()
		s.accept(1, 40)
		rejected := s.checkFinalState()
		stop() // an order is counted after its entry has gone
		if rejected != 0 || orders.Load() != 70 || deadLetters.Load() != 0 || batches.Load() < 4 {
			t.Errorf("%d batches, %d orders, %d dead letters", batches.Load(), orders.Load(), deadLetters.Load())
		}
	})
}

// Several processes share several vouchers. One of them watches a voucher before its first
// discovery.
func TestProcessesShareVouchers(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 5, 1000)
	var persisted [3]atomic.Int64
	var stops []func()
	for n := range persisted {
		f, stop := s.run(func(c *Config) {
			c.BatchSize = 7
			c.Observer.Persisted = func(time.Duration) { persisted[n].Add(1) }
		})
		stops = append(stops, stop)
		if n == 0 {
			s.must(f.Watch(t.Context(), order.AdmissionVoucher{VoucherID: 1, Buckets: 1}))
		}
	}
	var accepted int64
	sell := func() {
		for _, id := range s.vouchers {
			s.accept(id, 3)
			accepted += 3
		}
	}
	for range 40 {
		sell()
	}
	testkit.Until(t, "each process has persisted some orders", func() bool {
		if accepted < 4000 { // the others may have persisted all before one has found the vouchers
			sell()
		}
		return persisted[0].Load() > 0 && persisted[1].Load() > 0 && persisted[2].Load() > 0
	})
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
	for _, stop := range stops {
		stop() // an order is counted after its entry has gone
	}
	var sum int64
	for n := range persisted {
		sum += persisted[n].Load()
	}
	if sum != accepted {
		t.Errorf("%d orders were persisted, %d accepted", sum, accepted)
	}
}

// A new voucher is watched, an empty one is dropped after its sale, and one whose sale ended
// long ago is watched if it still has entries.
func TestVouchersComeAndGo(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 1000)
	s.accept(1, 1)
	f, _ := s.run(func(c *Config) { c.RetainFor = time.Nanosecond })
	s.waitUntilEmpty()
	s.vouchers = append(s.vouchers, 2)
	s.open(2)
	s.accept(2, 2)
	s.checkFinalState()

	f.config.Store = &listingStore{AdmissionStore: s.db.AdmissionStore(), now: singleBucket(2), ever: singleBucket(1, 2, 3)}
	testkit.Until(t, "the voucher is no longer watched", func() bool {
		f.discover(t.Context(), false)
		return !f.isWatched(newStream(s.prefix, 1, 0)) && f.isWatched(newStream(s.prefix, 2, 0))
	})
	s.open(3)
	s.accept(1, 1)
	s.accept(3, 1)
	s.vouchers = append(s.vouchers, 3)
	f.discover(t.Context(), true)
	if n := s.checkFinalState(); n != 0 || !slices.ContainsFunc(*f.watched.Load(), func(s *stream) bool { return s.voucher == 2 }) {
		t.Errorf("%d rejected", n)
	}
}

// Orders are persisted even if the sale ended days ago.
func TestSaleThatEndedLongAgo(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		s.vouchers = append(s.vouchers, 2)
		s.openUntil(2, time.Now().Add(-72*time.Hour))
		s.acceptAnyway(2, 3)
		s.run(nil)
		if n := s.checkFinalState(); n != 0 {
			t.Errorf("%d rejected", n)
		}
	})
}

// A broken stream of one voucher does not affect the others.
func TestBrokenStream(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		s.vouchers = append(s.vouchers, 2)
		s.open(2)
		f, _ := s.run(nil)
		s.accept(1, 3)
		s.accept(2, 3)
		s.checkFinalState()
		s.must(s.client.Rename(t.Context(), s.keys(2).Orders, s.keys(2).Orders+":kept").Err())
		s.must(s.client.Set(t.Context(), s.keys(2).Orders, "no stream", 0).Err())
		for range 3 {
			mustAwait(t, f, s.accept(1, 1)[0])
		}
		s.must(s.client.Rename(t.Context(), s.keys(2).Orders+":kept", s.keys(2).Orders).Err())
		s.accept(2, 3)
		if n := s.checkFinalState(); n != 0 {
			t.Errorf("%d rejected", n)
		}
	})
}

// listingStore is a store with a fixed list of vouchers.
type listingStore struct {
	order.AdmissionStore
	now, ever []order.AdmissionVoucher
}

func singleBucket(ids ...int64) (vouchers []order.AdmissionVoucher) {
	for _, id := range ids {
		vouchers = append(vouchers, order.AdmissionVoucher{VoucherID: id, Buckets: 1})
	}
	return vouchers
}

func (l *listingStore) AdmissionVouchers(context.Context, time.Time) ([]order.AdmissionVoucher, error) {
	return l.now, nil
}

func (l *listingStore) UnclearedVouchers(_ context.Context, _ time.Time, after int64, _ int) ([]order.AdmissionVoucher, error) {
	if after > 0 {
		return nil, nil
	}
	return l.ever, nil
}

// An entry that is delivered again, as after a lost acknowledgement, or that is in the stream
// twice, changes nothing.
func TestDeliveredTwice(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		faults, err := lock.NewFaults([]lock.Fault{
			{Point: lock.CriticalSection, Effect: lock.EffectError, Probability: 0.3},
			{Point: lock.AfterCommit, Effect: lock.EffectError, Probability: 0.5},
		}, nil)
		s.must(err)
		for _, a := range s.accept(1, 40) {
			s.must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys(1).Orders, Values: fields(a)}).Err())
		}
		for range 2 {
			s.run(func(c *Config) { c.Faults, c.BatchSize, c.MaxFailures, c.MaxAttempts = faults, 5, 1000, 1000 })
		}
		if n := s.checkFinalState(); n != 0 || len(s.deadLetters(1)) != 0 {
			t.Errorf("%d rejected, dead letters %v", n, s.deadLetters(1))
		}
	})
}

// The pending entries of a dead consumer are claimed, and the consumer is removed.
func TestDeadConsumersEntriesAreClaimed(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		s.accept(1, 25)
		s.must(newRedisStreams(s.client).ensureGroup(t.Context(), newStream(s.prefix, 1, 0)))
		s.must(s.client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: ledger.Group, Consumer: "dead", Count: 20, Streams: []string{s.keys(1).Orders, ">"}, Block: -1,
		}).Err())
		var claimed atomic.Int64
		s.run(func(c *Config) {
			c.ClaimIdle, c.BatchSize = 50*time.Millisecond, 6
			c.Observer.Claimed = func(n int) { claimed.Add(int64(n)) }
		})
		if n := s.checkFinalState(); n != 0 || claimed.Load() < 20 {
			t.Errorf("%d rejected, %d claimed", n, claimed.Load())
		}
		if t.Name() == "TestDeadConsumersEntriesAreClaimed/embedded" {
			return // in miniredis claimed entries stay pending at their first consumer
		}
		testkit.Until(t, "the dead consumer is removed", func() bool {
			all, err := s.client.XInfoConsumers(t.Context(), s.keys(1).Orders, ledger.Group).Result()
			s.must(err)
			return !slices.ContainsFunc(all, func(c redis.XInfoConsumer) bool { return c.Name == "dead" })
		})
	})
}

// A process that restarts with its name continues at once with its pending entries.
func TestOwnEntriesFirst(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	s.perEntry = 1
	s.accept(1, 20)
	s.must(newRedisStreams(s.client).ensureGroup(t.Context(), newStream(s.prefix, 1, 0)))
	s.must(s.client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: ledger.Group, Consumer: "me-1", Streams: []string{s.keys(1).Orders, ">"}, Block: -1,
	}).Err())
	// One of the entries was deleted behind the consumer's back, with its reservation.
	first, err := s.client.XRangeN(t.Context(), s.keys(1).Orders, "-", "+", 1).Result()
	s.must(err)
	s.must(s.client.XDel(t.Context(), s.keys(1).Orders, first[0].ID).Err())
	gone := parse(newStream("", 1, 0), first[0].ID, first[0].Values)[0].order
	s.must(s.client.HDel(t.Context(), s.keys(1).Users, first[0].Values[ledger.EntryUser].(string)).Err())
	s.must(s.client.HIncrBy(t.Context(), s.keys(1).Meta, ledger.FieldStock, 1).Err())
	delete(s.accepted, gone.OrderID)

	s.run(func(c *Config) { c.Name, c.BatchSize = "me", 6 })
	s.checkFinalState()
}

// In a cluster the vouchers are in different slots, so no command reads all streams.
func TestCluster(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), MaxRedirects: 3})
	t.Cleanup(func() { _ = client.Close() })
	s := openEnv(t, client, testkit.MariaDB(t), 6, 1000)
	for _, id := range s.vouchers {
		s.accept(id, 20)
	}
	f, _ := s.run(nil)
	s.run(nil)
	poison := s.accept(3, 1)[0]
	s.must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys(3).Orders, Values: []any{"no", "order"}}).Err())
	if err := f.Await(t.Context(), order.Order{ID: poison.OrderID, VoucherID: 3}, 5*time.Second); err != nil {
		t.Error(err)
	}
	for _, id := range s.vouchers {
		s.accept(id, 20)
	}
	if n := s.checkFinalState(); n != 0 || len(s.deadLetters(3)) != 1 {
		t.Errorf("%d rejected, dead letters %v", n, s.deadLetters(3))
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 0, 1)
	for name, wrong := range map[string]func(*Config){
		"no client":          func(c *Config) { c.Client = nil },
		"no store":           func(c *Config) { c.Store = nil },
		"no workers":         func(c *Config) { c.Workers = -1 },
		"a huge batch":       func(c *Config) { c.BatchSize = maxBatch + 1 },
		"blocks for ever":    func(c *Config) { c.Block = time.Microsecond },
		"negative timeout":   func(c *Config) { c.FinishTimeout = -1 },
		"negative attempts":  func(c *Config) { c.MaxAttempts = -1 },
		"negative failures":  func(c *Config) { c.MaxFailures = -1 },
		"negative idle time": func(c *Config) { c.ClaimIdle = -1 },
	} {
		if f, err := New(s.config(wrong)); err == nil || f != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{}).Validate(); err == nil || errors.Is(err, redis.Nil) {
		t.Error(err)
	}
}

// A process that is late to notice that a voucher was removed from Redis does not recreate its
// keys. It reads the stream again once the voucher is opened again.
func TestRemovedStreamIsNotRecreated(t *testing.T) {
	t.Parallel()
	withServers(t, func(t *testing.T, s *env) {
		f, _ := s.run(func(c *Config) { c.ClaimEvery = 20 * time.Millisecond })
		s.accept(1, 5)
		s.checkFinalState()
		meta := s.client.HGetAll(t.Context(), s.keys(1).Meta).Val()
		var failed atomic.Int64
		for range 20 {
			s.must(s.client.Unlink(t.Context(), s.keys(1).Meta, s.keys(1).Orders).Err())
			s.must(f.Watch(t.Context(), order.AdmissionVoucher{VoucherID: 1, Buckets: 1}))
			time.Sleep(20 * time.Millisecond) // several reads and discoveries
			failed.Add(s.client.Exists(t.Context(), s.keys(1).Orders).Val())
		}
		if n := failed.Load(); n > 0 {
			t.Errorf("the stream was recreated %d times", n)
		}
		s.must(s.client.HSet(t.Context(), s.keys(1).Meta, meta).Err())
		s.accept(1, 5)
		s.checkFinalState()
	})
}

// A read that finds nothing takes as long as it may block, and is no failure, also if that is longer than a node may
// take to answer anything else. A busy machine may be later than that.
func TestIdleReadIsNoFailure(t *testing.T) {
	t.Parallel()
	s := newEnv(t, 1, 100)
	in, st := newRedisStreams(s.client), newStream(s.prefix, 1, 0)
	s.must(in.ensureGroup(t.Context(), st))
	const block = 2 * nodeTimeout
	testkit.Until(t, "an idle read", func() bool {
		began := time.Now()
		entries, err := in.readNew(t.Context(), "w", []*stream{st}, 10, block)
		if took := time.Since(began); err == nil && took < block {
			t.Errorf("%v after %v, want %v", entries, took, block)
		}
		return err == nil
	})
}
