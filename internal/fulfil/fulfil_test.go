package fulfil

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func acceptedOrdersArePersisted(t *testing.T, s *env) {
	var batches, orders, deadLetters atomic.Int64
	s.accept(1, 30)
	s.open(2, time.Now().Add(-72*time.Hour)) // a sale that ended days ago
	s.acceptEach(2, 3)
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
	if rejected != 0 || orders.Load() != 73 || deadLetters.Load() != 0 || batches.Load() < 4 {
		t.Errorf("%d batches, %d orders, %d dead letters", batches.Load(), orders.Load(), deadLetters.Load())
	}
}

// Several processes share several vouchers. One of them watches a voucher before its first discovery.
func processesShareVouchers(t *testing.T, s *env) {
	var persisted [3]atomic.Int64
	var stops []func()
	for n := range persisted {
		f, stop := s.run(func(c *Config) {
			c.BatchSize = 7
			c.Observer.Persisted = func(time.Duration) { persisted[n].Add(1) }
		})
		stops = append(stops, stop)
		if n == 0 {
			s.must(f.Watch(t.Context(), contract.AdmissionVoucher{VoucherID: 1, Buckets: 1}))
		}
	}
	var accepted int64
	s.until("each process has persisted some orders", func() bool {
		for _, id := range s.vouchers {
			if accepted < 4000 { // the others may have persisted all before one has found the vouchers
				s.accept(id, 30)
				accepted += 30
			}
		}
		return persisted[0].Load() > 0 && persisted[1].Load() > 0 && persisted[2].Load() > 0
	})
	s.wantFinalState(0)
	var sum int64
	for n, stop := range stops {
		stop()
		sum += persisted[n].Load()
	}
	fail.Unequal(t, sum, accepted, "orders were persisted, %d accepted", accepted)
}

// A new voucher is watched, an empty one is dropped after its sale, and one whose sale ended long ago is watched if it
// still has entries.
func vouchersComeAndGo(t *testing.T, s *env) {
	s.accept(1, 1)
	f, _ := s.run(func(c *Config) { c.RetainFor = time.Nanosecond })
	s.waitUntilEmpty()
	s.open(2, time.Now().Add(time.Hour))
	s.accept(2, 2)
	s.checkFinalState()

	f.config.Store = &listingStore{AdmissionStore: s.db.AdmissionStore(), now: singleBucket(2), ever: singleBucket(1, 2, 3)}
	s.until("the voucher is no longer watched", func() bool {
		f.discovery.discover(t.Context(), false)
		watched, _ := f.Watched()
		return slices.Equal(watched, singleBucket(2))
	})
	s.open(3, time.Now().Add(time.Hour))
	s.accept(1, 1)
	s.accept(3, 1)
	f.discovery.discover(t.Context(), true)
	s.wantFinalState(0)
}

// A broken stream of one voucher does not affect the others.
func brokenStream(t *testing.T, s *env) {
	f, _ := s.run(nil)
	s.accept(1, 3)
	s.accept(2, 3)
	s.checkFinalState()
	s.must(s.client.Rename(t.Context(), s.keys(2).Orders, s.keys(2).Orders+":kept").Err())
	s.must(s.client.Set(t.Context(), s.keys(2).Orders, "no stream", 0).Err())
	for range 3 {
		s.await(f, s.accept(1, 1)[0])
	}
	s.must(s.client.Rename(t.Context(), s.keys(2).Orders+":kept", s.keys(2).Orders).Err())
	s.accept(2, 3)
	s.wantFinalState(0)
}

// listingStore is a store with a fixed list of vouchers.
type listingStore struct {
	contract.AdmissionStore
	now, ever []contract.AdmissionVoucher
}

func singleBucket(ids ...int64) (vouchers []contract.AdmissionVoucher) {
	for _, id := range ids {
		vouchers = append(vouchers, contract.AdmissionVoucher{VoucherID: id, Buckets: 1})
	}
	return vouchers
}

func (l *listingStore) AdmissionVouchers(context.Context, time.Time) ([]contract.AdmissionVoucher, error) {
	return l.now, nil
}

func (l *listingStore) UnclearedVouchers(_ context.Context, _ time.Time, after int64, _ int) ([]contract.AdmissionVoucher, error) {
	if after > 0 {
		return nil, nil
	}
	return l.ever, nil
}

// An entry that is delivered again changes nothing, nor one that is in the stream twice: the worker stopped before the
// commit, between the commit and the acknowledgement, or between the recorded rejection and the return of its
// reservation.
func deliveredTwice(t *testing.T, s *env) {
	faults, err := lock.NewFaults([]lock.Fault{
		{Point: lock.CriticalSection, Effect: lock.EffectError, Probability: 0.3},
		{Point: lock.AfterCommit, Effect: lock.EffectError, Probability: 0.5},
		{Point: lock.BeforeRelease, Effect: lock.EffectError, Probability: 0.5},
	}, nil)
	s.must(err)
	for _, a := range s.accept(1, 40) {
		s.must(s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys(1).Orders, Values: fields(a)}).Err())
	}
	s.accept(2, 20)
	s.makeEpochStale(2)
	for range 2 {
		s.run(func(c *Config) { c.Faults, c.BatchSize, c.MaxFailures, c.MaxAttempts = faults, 5, 1000, 1000 })
	}
	s.wantFinalState(20)
	if one, two := len(s.deadLetters(1)), len(s.deadLetters(2)); one != 0 || two != 20 {
		t.Errorf("%d and %d dead letters, want 0 and 20", one, two)
	}
}

// The pending entries of a dead consumer are claimed, in all buckets, and the consumer is removed.
func deadConsumersEntries(t *testing.T, s *env) {
	s.acceptEach(1, 40)
	streams := streamsOf(s.prefix, contract.AdmissionVoucher{VoucherID: 1, Buckets: s.buckets})
	for _, st := range streams {
		s.pendingAt(st, "dead", 30, 1)
	}
	_, held := s.inFlight()
	var claimed atomic.Int64
	s.run(func(c *Config) {
		c.ClaimIdle, c.BatchSize = 50*time.Millisecond, 6
		c.Observer.Claimed = func(n int) { claimed.Add(int64(n)) }
	})
	if n := s.checkFinalState(); n != 0 || claimed.Load() < held || held < 30 {
		t.Errorf("%d rejected, %d of %d claimed", n, claimed.Load(), held)
	}
	if s.server != nil {
		return // in miniredis claimed entries stay pending at their first consumer
	}
	s.until("the dead consumer is removed", func() bool {
		all, err := s.client.XInfoConsumers(t.Context(), streams[0].keys.Orders, ledger.Group).Result()
		s.must(err)
		return !slices.ContainsFunc(all, func(c redis.XInfoConsumer) bool { return c.Name == "dead" })
	})
}

// A process that restarts with its name continues at once with its pending entries, one of which was deleted behind the
// consumer's back, with its reservation.
func ownEntriesFirst(t *testing.T, s *env) {
	s.perEntry = 1
	gone := s.accept(1, 20)[0]
	s.pendingAt(newStream(s.prefix, 1, 0), "me-1", 20, 1)
	first, err := s.client.XRangeN(t.Context(), s.keys(1).Orders, "-", "+", 1).Result()
	s.must(err)
	s.must(s.client.XDel(t.Context(), s.keys(1).Orders, first[0].ID).Err())
	s.must(s.client.HDel(t.Context(), s.keys(1).Users, text(gone.UserID)).Err())
	s.must(s.client.HIncrBy(t.Context(), s.keys(1).Meta, ledger.FieldStock, 1).Err())
	delete(s.accepted, gone.OrderID)
	s.run(func(c *Config) { c.Name, c.BatchSize = "me", 6 })
	s.checkFinalState()
}

// A process that is late to notice that a voucher was removed from Redis does not recreate its keys. It reads the
// stream again once the voucher is opened again.
func removedStreamIsNotRecreated(t *testing.T, s *env) {
	f, _ := s.run(func(c *Config) { c.ClaimEvery = 20 * time.Millisecond })
	s.accept(1, 5)
	s.checkFinalState()
	meta := s.client.HGetAll(t.Context(), s.keys(1).Meta).Val()
	recreated := int64(0)
	for range 20 {
		s.must(s.client.Unlink(t.Context(), s.keys(1).Meta, s.keys(1).Orders).Err())
		s.must(f.Watch(t.Context(), contract.AdmissionVoucher{VoucherID: 1, Buckets: 1}))
		s.sleep(20 * time.Millisecond) // several reads and discoveries
		recreated += s.client.Exists(t.Context(), s.keys(1).Orders).Val()
	}
	if recreated > 0 {
		t.Errorf("the stream was recreated %d times", recreated)
	}
	s.must(s.client.HSet(t.Context(), s.keys(1).Meta, meta).Err())
	s.accept(1, 5)
	s.checkFinalState()
}

// A stop in the middle of a batch: the batch is finished and acknowledged, nothing more is read, and the consumer
// leaves the group.
func gracefulStop(t *testing.T, s *env) {
	s.perEntry = 1
	s.accept(1, 30)
	began, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	slow := &fakeStore{AdmissionStore: s.db.AdmissionStore()}
	slow.persist = func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
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
	s.sleep(50 * time.Millisecond) // lets the stop arrive; the result does not depend on it
	close(proceed)
	stopped.Wait()
	if n := s.left(); n == 30 || n == 0 || persisted.Load() != 30-n {
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

// A stop during an outage of the database ends with FinishTimeout, and no order is lost.
func TestStopDuringAnOutage(t *testing.T) {
	inBubble(t, sale{stock: 100}, func(t *testing.T, s *env) {
		s.accept(1, 10)
		_, stop := s.run(func(c *Config) {
			c.FinishTimeout = 100 * time.Millisecond
			c.Store = &fakeStore{AdmissionStore: s.db.AdmissionStore(), persist: func(ctx context.Context, _ []contract.Accepted) ([]order.Status, error) {
				<-ctx.Done() // it hangs
				return nil, order.ErrUnavailable
			}}
		})
		simulate.Sleep(time.Second)
		began := time.Now()
		stop()
		fail.Unequal(t, time.Since(began), 100*time.Millisecond, "the stop took")
		s.run(func(c *Config) { c.ClaimIdle = 20 * time.Millisecond })
		s.wantFinalState(0)
	})
}

// Redis goes away again and again while orders arrive, and comes back with all its data.
func TestRedisGoesAwayAndComesBack(t *testing.T) {
	inBubble(t, sale{vouchers: 2}, func(t *testing.T, s *env) {
		for range 2 {
			s.run(func(c *Config) { c.BatchSize, c.ClaimIdle = 5, 300*time.Millisecond })
		}
		for n := range 7 {
			s.accept(1, 40)
			s.accept(2, 40)
			simulate.Sleep(time.Duration(n) * 10 * time.Millisecond)
			s.server.Stop()
			simulate.Sleep(time.Second)
			s.server.Start()
			s.client = s.server.Client(t) // the test's own: the workers have theirs
		}
		s.wantFinalState(0)
	})
}

// Redis loses everything, the consumer group included. Orders accepted after that are persisted.
func TestRedisEmptied(t *testing.T) {
	inBubble(t, sale{vouchers: 2, stock: 100}, func(t *testing.T, s *env) {
		s.run(nil)
		s.accept(1, 10)
		s.checkFinalState()
		s.server.RestartEmpty()
		s.client = s.server.Client(t)                         // the test's own: the workers have theirs
		for id, stock := range map[int64]int{1: 90, 2: 100} { // rebuilt
			s.must(s.client.HSet(t.Context(), s.keys(id).Meta, ledger.FieldStock, stock, ledger.FieldEpoch, 2).Err())
		}
		for _, a := range s.accepted {
			s.must(s.client.HSet(t.Context(), s.keys(1).Users, a.UserID, ledger.Reserved(a.OrderID, a.Key)).Err())
		}
		s.acceptEach(1, 10)
		s.acceptEach(2, 10)
		s.wantFinalState(0)
	})
}

// A process is paused in the middle of a batch until others have claimed its entries and confirmed or rejected the
// orders. Then it goes on: it is told what was decided, and each reservation was returned once.
func TestPausedPastTheClaim(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]error{"confirmed": nil, "rejected": order.ErrStaleEpoch} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, sale{stock: 100}, func(t *testing.T, s *env) {
				s.accept(1, 8)
				begun, resumed, late := make(chan int, 1), make(chan struct{}), make(chan []order.Status, 1)
				store := s.db.AdmissionStore()
				s.run(func(c *Config) {
					c.Name, c.Workers, c.ClaimIdle = "paused", 1, time.Hour
					c.Store = &fakeStore{AdmissionStore: store, persist: func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
						begun <- len(batch)
						<-resumed
						statuses, err := store.Persist(ctx, batch)
						late <- statuses
						return statuses, err
					}}
				})
				fail.NowUnequal(t, <-begun, 8, "orders of a batch")
				_, stop := s.run(func(c *Config) {
					c.ClaimIdle = 50 * time.Millisecond
					c.Store = &fakeStore{AdmissionStore: store, persist: func(ctx context.Context, batch []contract.Accepted) ([]order.Status, error) {
						if others != nil {
							return nil, others
						}
						return store.Persist(ctx, batch)
					}}
				})
				rejected := s.checkFinalState()
				stop()
				close(resumed)
				want := order.Confirmed
				if others != nil {
					want = order.Rejected
				}
				if statuses := <-late; len(statuses) != 8 || slices.ContainsFunc(statuses, func(s order.Status) bool { return s != want }) {
					t.Errorf("the late process was told %v, want %s", statuses, want)
				}
				synctest.Wait()
				if n := s.checkFinalState(); n != rejected || n != len(s.deadLetters(1)) || (n == 8) != (others != nil) {
					t.Errorf("%d rejected, %d dead letters", n, len(s.deadLetters(1)))
				}
			})
		})
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	s := &env{t: t, client: redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), db: openDB(t, testkit.SQLite(t))}
	t.Cleanup(func() { _ = s.client.Close() })
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
}
