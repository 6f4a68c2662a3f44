package fulfil

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

func TestPersistsWhatIsAccepted(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		var batches, orders, letters atomic.Int64
		s.accept(1, 30)
		s.run(func(c *Config) {
			c.BatchSize = 20
			c.Observer = Observer{
				Batch:      func(int, time.Duration, error) { batches.Add(1) },
				Persisted:  func(time.Duration) { orders.Add(1) },
				DeadLetter: func(Reason) { letters.Add(1) },
			}
		})
		s.drained()
		s.accept(1, 40)
		if s.atRest() != 0 || orders.Load() != 70 || letters.Load() != 0 || batches.Load() < 4 {
			t.Errorf("%d batches, %d orders, %d letters", batches.Load(), orders.Load(), letters.Load())
		}
	})
}

// Several vouchers, several processes, one of which knows of the vouchers before its
// first look at the database.
func TestProcessesShareVouchers(t *testing.T) {
	s := newShop(t, 5, 1000)
	var persisted [3]atomic.Int64
	for n := range persisted {
		f, _ := s.run(func(c *Config) {
			c.BatchSize = 7
			c.Observer.Persisted = func(time.Duration) { persisted[n].Add(1) }
		})
		if n == 0 {
			s.must(f.Watch(t.Context(), order.Sale{VoucherID: 1, Buckets: 1}))
		}
	}
	for range 40 {
		for _, id := range s.vouchers {
			s.accept(id, 3)
		}
	}
	if n := s.atRest(); n != 0 {
		t.Errorf("%d rejected", n)
	}
	var sum int64
	for n := range persisted {
		sum += persisted[n].Load()
		if persisted[n].Load() == 0 {
			t.Errorf("process %d had nothing to do", n)
		}
	}
	if sum != 600 {
		t.Errorf("%d orders were persisted, 600 accepted", sum)
	}
}

// A voucher that comes while the workers wait is read from, one that is over and empty
// is not any more, and one that was over before the start is if something is left.
func TestVouchersComeAndGo(t *testing.T) {
	s := newShop(t, 1, 1000)
	s.accept(1, 1)
	f, _ := s.run(func(c *Config) { c.KeepFor = time.Nanosecond })
	s.drained()
	s.vouchers = append(s.vouchers, 2)
	s.open(2)
	s.accept(2, 2)
	s.atRest()

	f.config.Shelf = &listing{Shelf: s.db.Shelf(), now: unsplit(2), ever: unsplit(1, 2, 3)}
	eventually(t, "the voucher is not watched any more", func() bool {
		f.discover(t.Context(), false)
		return !f.reads(newStream(s.prefix, 1, 0)) && f.reads(newStream(s.prefix, 2, 0))
	})
	s.open(3)
	s.accept(1, 1)
	s.accept(3, 1)
	s.vouchers = append(s.vouchers, 3)
	f.discover(t.Context(), true)
	if n := s.atRest(); n != 0 || !slices.ContainsFunc(*f.watched.Load(), func(s *stream) bool { return s.voucher == 2 }) {
		t.Errorf("%d rejected", n)
	}
}

// What was accepted before everything stood still for days is persisted nevertheless.
func TestSaleThatIsLongOver(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		s.vouchers = append(s.vouchers, 2)
		s.openUntil(2, time.Now().Add(-72*time.Hour))
		s.accept(2, 3)
		s.run(nil)
		if n := s.atRest(); n != 0 {
			t.Errorf("%d rejected", n)
		}
	})
}

// One voucher's stream is broken beyond use. The others do not suffer.
func TestBrokenStream(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		s.vouchers = append(s.vouchers, 2)
		s.open(2)
		f, _ := s.run(nil)
		s.accept(1, 3)
		s.accept(2, 3)
		s.atRest()
		s.must(s.client.Rename(t.Context(), s.keys(2).Orders, s.keys(2).Orders+":kept").Err())
		s.must(s.client.Set(t.Context(), s.keys(2).Orders, "no stream", 0).Err())
		for range 3 {
			awaited(t, f, s.accept(1, 1)[0])
		}
		s.must(s.client.Rename(t.Context(), s.keys(2).Orders+":kept", s.keys(2).Orders).Err())
		s.accept(2, 3)
		if n := s.atRest(); n != 0 {
			t.Errorf("%d rejected", n)
		}
	})
}

// listing is a shelf that says itself which vouchers there are.
type listing struct {
	order.Shelf
	now, ever []order.Sale
}

func unsplit(ids ...int64) (sales []order.Sale) {
	for _, id := range ids {
		sales = append(sales, order.Sale{VoucherID: id, Buckets: 1})
	}
	return sales
}

func (l *listing) AdmissionSales(_ context.Context, endsAfter time.Time) ([]order.Sale, error) {
	if endsAfter.Unix() == 0 {
		return l.ever, nil
	}
	return l.now, nil
}

// Whatever is delivered again, as after a lost acknowledgement, or is there twice,
// changes nothing.
func TestDeliveredTwice(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		faults, err := lock.NewFaults([]lock.Fault{
			{Point: lock.CriticalSection, Effect: lock.EffectError, Probability: 0.3},
			{Point: lock.AfterCommit, Effect: lock.EffectError, Probability: 0.5},
		}, nil)
		s.must(err)
		for _, a := range s.accept(1, 40) {
			s.must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys(1).Orders, Values: fields(a)}).Err())
		}
		for range 2 {
			s.run(func(c *Config) { c.Faults, c.BatchSize, c.MaxAttempts = faults, 5, 1000 })
		}
		if n := s.atRest(); n != 0 || len(s.letters(1)) != 0 {
			t.Errorf("%d rejected, letters %v", n, s.letters(1))
		}
	})
}

// What a consumer held that is gone is taken over, and its name is removed.
func TestDeadConsumersEntriesAreClaimed(t *testing.T) {
	places(t, func(t *testing.T, s *shop) {
		s.accept(1, 25)
		s.must(newStreams(s.client).prepare(t.Context(), newStream(s.prefix, 1, 0)))
		s.must(s.client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
			Group: admkey.Group, Consumer: "dead", Count: 20, Streams: []string{s.keys(1).Orders, ">"}, Block: -1,
		}).Err())
		var claimed atomic.Int64
		s.run(func(c *Config) {
			c.ClaimIdle, c.BatchSize = 50*time.Millisecond, 6
			c.Observer.Claimed = func(n int) { claimed.Add(int64(n)) }
		})
		if n := s.atRest(); n != 0 || claimed.Load() < 20 {
			t.Errorf("%d rejected, %d claimed", n, claimed.Load())
		}
		if t.Name() == "TestDeadConsumersEntriesAreClaimed/embedded" {
			return // miniredis counts what was claimed as its first consumer's for ever
		}
		eventually(t, "the dead consumer is removed", func() bool {
			all, err := s.client.XInfoConsumers(t.Context(), s.keys(1).Orders, admkey.Group).Result()
			s.must(err)
			return !slices.ContainsFunc(all, func(c redis.XInfoConsumer) bool { return c.Name == "dead" })
		})
	})
}

// A process that is restarted under its name goes on at once with what it held.
func TestOwnEntriesFirst(t *testing.T) {
	s := newShop(t, 1, 100)
	s.accept(1, 20)
	s.must(newStreams(s.client).prepare(t.Context(), newStream(s.prefix, 1, 0)))
	s.must(s.client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: admkey.Group, Consumer: "me-1", Streams: []string{s.keys(1).Orders, ">"}, Block: -1,
	}).Err())
	// One of them was deleted behind everybody's back, with its reservation.
	first, err := s.client.XRangeN(t.Context(), s.keys(1).Orders, "-", "+", 1).Result()
	s.must(err)
	s.must(s.client.XDel(t.Context(), s.keys(1).Orders, first[0].ID).Err())
	gone := parse(newStream("", 1, 0), first[0].ID, first[0].Values).order
	s.must(s.client.HDel(t.Context(), s.keys(1).Users, first[0].Values[admkey.EntryUser].(string)).Err())
	s.must(s.client.HIncrBy(t.Context(), s.keys(1).Meta, admkey.Stock, 1).Err())
	delete(s.accepted, gone.OrderID)

	s.run(func(c *Config) { c.Name, c.BatchSize = "me", 6 })
	s.atRest()
}

// The stop comes in the middle of a batch: it is finished and acknowledged, nothing
// more is read, and the consumer is gone from the group.
func TestGracefulStop(t *testing.T) {
	s := newShop(t, 1, 1000)
	s.accept(1, 30)
	begun, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &shelf{Shelf: s.db.Shelf()}
	slow.persist = func(ctx context.Context, batch []order.Accepted) ([]order.Status, error) {
		once.Do(func() { close(begun) })
		<-proceed
		return slow.Shelf.Persist(ctx, batch)
	}
	var persisted atomic.Int64
	_, stop := s.run(func(c *Config) {
		c.Shelf, c.BatchSize, c.Workers = slow, 10, 1
		c.Observer.Persisted = func(time.Duration) { persisted.Add(1) }
	})
	<-begun
	var stopped sync.WaitGroup
	stopped.Go(stop)
	time.Sleep(50 * time.Millisecond) // let the stop arrive; nothing depends on it
	close(proceed)
	stopped.Wait()
	if n := s.client.XLen(t.Context(), s.keys(1).Orders).Val(); n != 20 && n != 10 || persisted.Load() != 30-n {
		t.Errorf("%d entries are left of 30, %d were persisted", n, persisted.Load())
	}
	pending, err := s.client.XPending(t.Context(), s.keys(1).Orders, admkey.Group).Result()
	if err != nil || pending.Count != 0 {
		t.Errorf("pending %+v, %v", pending, err)
	}
	if all := s.client.XInfoConsumers(t.Context(), s.keys(1).Orders, admkey.Group).Val(); len(all) != 0 {
		t.Errorf("consumers %+v", all)
	}
	s.run(nil)
	s.atRest()
}

// A stop while the database is away ends within its bound, and nothing is lost.
func TestStopDuringAnOutage(t *testing.T) {
	s := newShop(t, 1, 100)
	s.accept(1, 10)
	tried := make(chan struct{}, 1)
	_, stop := s.run(func(c *Config) {
		c.FinishTimeout = 100 * time.Millisecond
		c.Shelf = &shelf{Shelf: s.db.Shelf(), persist: func(context.Context, []order.Accepted) ([]order.Status, error) {
			wake(tried)
			return nil, order.ErrUnavailable
		}}
	})
	<-tried
	begun := time.Now()
	if stop(); time.Since(begun) > 5*time.Second {
		t.Errorf("the stop took %v", time.Since(begun))
	}
	s.run(func(c *Config) { c.ClaimIdle = 20 * time.Millisecond })
	if n := s.atRest(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// The database goes away for a while: that costs no order.
func TestDatabaseDownAndBack(t *testing.T) {
	server := testkit.NewMariaDB(t)
	s := openShop(t, clientOf(t, testkit.Redis(t).Addr()), server.Database(t), 2, 1000)
	s.run(func(c *Config) { c.ClaimIdle, c.MaxDeliveries, c.MaxAttempts = 200*time.Millisecond, 1, 1 })
	s.run(func(c *Config) { c.ClaimIdle, c.MaxDeliveries, c.MaxAttempts = 200*time.Millisecond, 1, 1 })
	s.accept(1, 50)
	s.drained()
	server.Kill()
	s.accept(1, 50)
	s.accept(2, 50)
	time.Sleep(2 * time.Second) // as long as it is down
	server.Restart()
	if n := s.atRest(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// Redis is emptied, group and all: what comes afterwards is persisted.
func TestRedisEmptied(t *testing.T) {
	server := testkit.NewRedis(t)
	s := openShop(t, clientOf(t, server.Addr()), testkit.MariaDB(t), 2, 100)
	s.run(nil)
	s.accept(1, 10)
	s.atRest()
	s.must(s.client.FlushAll(t.Context()).Err())
	for _, id := range s.vouchers { // rebuilt
		s.must(s.client.HSet(t.Context(), s.keys(id).Meta, admkey.Stock, 90, admkey.Epoch, 2).Err())
	}
	s.must(s.client.HIncrBy(t.Context(), s.keys(2).Meta, admkey.Stock, 10).Err())
	for _, a := range s.accepted {
		s.must(s.client.HSet(t.Context(), s.keys(1).Users, a.UserID, a.OrderID).Err())
	}
	s.accept(1, 10)
	s.accept(2, 10)
	if n := s.atRest(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// Redis is killed under load and comes back with all that it had.
func TestRedisKilledAndBack(t *testing.T) {
	server := testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	s := openShop(t, clientOf(t, server.Addr()), testkit.MariaDB(t), 2, 1000)
	s.run(func(c *Config) { c.BatchSize, c.ClaimIdle = 5, 300*time.Millisecond })
	for range 3 {
		s.accept(1, 40)
		s.accept(2, 40)
		server.Kill()
		server.Restart()
	}
	if n := s.atRest(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}

// On a cluster the vouchers are in different slots, which no command reads at once.
func TestCluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), MaxRedirects: 3})
	t.Cleanup(func() { _ = client.Close() })
	s := openShop(t, client, testkit.MariaDB(t), 6, 1000)
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
	if n := s.atRest(); n != 0 || len(s.letters(3)) != 1 {
		t.Errorf("%d rejected, letters %v", n, s.letters(3))
	}
}

func TestConfig(t *testing.T) {
	s := newShop(t, 0, 1)
	for name, wrong := range map[string]func(*Config){
		"no client":          func(c *Config) { c.Client = nil },
		"no shelf":           func(c *Config) { c.Shelf = nil },
		"no workers":         func(c *Config) { c.Workers = -1 },
		"a huge batch":       func(c *Config) { c.BatchSize = maxBatch + 1 },
		"blocks for ever":    func(c *Config) { c.Block = time.Microsecond },
		"negative timeout":   func(c *Config) { c.FinishTimeout = -1 },
		"negative attempts":  func(c *Config) { c.MaxAttempts = -1 },
		"claims all at once": func(c *Config) { c.ClaimIdle = -1 },
	} {
		if f, err := New(s.config(wrong)); err == nil || f != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (Config{}).Validate(); err == nil || errors.Is(err, redis.Nil) {
		t.Error(err)
	}
}
