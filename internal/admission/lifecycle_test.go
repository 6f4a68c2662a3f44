package admission

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// grantsEverybody grants a lock to every caller: a lock is worth no more once its holder was paused.
type grantsEverybody struct{}

func (grantsEverybody) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	return lock.NewHeld(ctx, lock.Grant{Key: key, Owner: "me", Release: func(context.Context) error { return nil }}), nil
}

// Redis is emptied during a sale, with persisted and pending orders. The sale goes on, and sells the whole
// stock to as many users.
func TestRedisIsEmptiedDuringASale(t *testing.T) {
	for name, locker := range map[string]func(*fixture) lock.Locker{
		"": func(s *fixture) lock.Locker {
			l, err := reentrant.New(s.client.(*redis.Client), reentrant.Config{Prefix: s.prefix})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return l
		},
		"although the lock excludes nobody": func(*fixture) lock.Locker { return grantsEverybody{} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, simulate.NewRedis(t).Options(), 300)
			s.config.Locker = locker(s)
			gates := []*Gate{s.gate(nil), s.gate(nil), s.gate(nil)}
			finish := s.run()
			var accepted atomic.Int64
			var wg sync.WaitGroup
			for w := range int64(30) {
				wg.Go(func() {
					for n := range int64(20) {
						user := w*20 + n + 1
						err := s.buy(gates[user%3], user, 100_000+user)
						for errors.Is(err, order.ErrUnavailable) {
							err = s.buy(gates[user%3], user, 100_000+user)
						}
						if err == nil && accepted.Add(1) == 100 {
							if err := s.client.FlushAll(context.Background()).Err(); err != nil {
								t.Error(err)
							}
						}
						if err != nil && !errors.Is(err, voucher.ErrSoldOut) && !errors.Is(err, order.ErrAlreadyOrdered) {
							t.Errorf("user %d: %v", user, err)
						}
					}
				})
			}
			wg.Wait()
			finish()
			s.balanced(s.gate(nil), 300)
		})
	}
}

// The epoch changes while buyers wait: orders accepted under the old epoch are drained and counted, the
// others are decided under the new one.
func TestEpochChangesUnderLoad(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 300)
	gates := []*Gate{s.gate(nil), s.gate(nil)}
	finish := s.run()
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for w := range int64(50) {
		wg.Go(func() {
			for n := range int64(8) {
				user := w*8 + n + 1
				err := s.buy(gates[user%2], user, 100_000+user)
				for errors.Is(err, order.ErrUnavailable) {
					err = s.buy(gates[user%2], user, 100_000+user)
				}
				if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
					t.Errorf("user %d: %v", user, err)
				}
				if err == nil && accepted.Add(1)%50 == 0 { // as another process would that distrusts Redis
					_, _ = s.store.Close(t.Context(), s.store.voucher.ID)
					gates[0].Check(t.Context())
				}
			}
		})
	}
	wg.Wait()
	finish()
	if s.store.epochState.Epoch < 6 || len(s.store.rejected) > 0 {
		t.Errorf("epoch %d, %d rejected", s.store.epochState.Epoch, len(s.store.rejected))
	}
	last := s.gate(nil)
	if err := last.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	s.balanced(last, 300)
}

// A process that was stopped between the database and Redis continues when others have opened the voucher
// under a later epoch.
func TestLateOpenerChangesNothing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	s.config.Locker = grantsEverybody{}
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var opens atomic.Int64
	s.store.onOpen = func() {
		if opens.Add(1) == 1 {
			close(stopped)
			<-goOn
		}
	}
	slow, quick := s.gate(nil), s.gate(nil)
	opened := make(chan error, 1)
	go func() { opened <- slow.Open(context.Background(), &s.store.voucher) }()
	<-stopped
	if err := s.buy(quick, 1, 11); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if err := s.buy(slow, 1, 12); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("the late opener wrote over what there was: %v", err)
	}
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.balanced(slow, 1)
}

func TestOpeningWaitsForPendingOrders(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	if err := s.buy(s.gate(nil), 1, 11); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Del(t.Context(), s.keys.Meta).Err(); err != nil {
		t.Fatal(err)
	}
	g := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	if err := s.buy(g, 2, 22); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("with an order on its way: %v", err)
	}
	if _, err := g.Audit(t.Context(), s.store.voucher.ID); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("Audit while closed: %v", err)
	}
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	if err := s.buy(g, 1, 12); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("the user who was drained: %v", err)
	}
	s.balanced(g, 1)
}

func TestManyUsersAreCopied(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 5000)
	for user := range int64(2*pageSize + 1) {
		s.store.orders[user+1] = order.Order{ID: user + 10_000, UserID: user + 1}
		s.store.epochState.Stock--
	}
	g := s.gate(nil)
	for _, user := range []int64{1, pageSize, 2*pageSize + 1} {
		if err := s.buy(g, user, 1); !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("user %d: %v", user, err)
		}
	}
	if ttl := s.client.TTL(t.Context(), s.keys.Users).Val(); ttl != -1 {
		t.Errorf("the users would be gone in %v", ttl)
	}
	s.balanced(g, 2*pageSize+1)
}

func TestOpeningFails(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	s.store.fail(errors.Join(order.ErrUnavailable, io.EOF))
	if err := s.buy(g, 1, 11); !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, io.EOF) {
		t.Errorf("without a database: %v", err)
	}
	s.store.fail(nil)
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Errorf("with it: %v", err)
	}
	missing := s.store.voucher
	missing.ID = 5
	if err := g.Open(t.Context(), &missing); !errors.Is(err, voucher.ErrNotFound) {
		t.Errorf("a voucher that is not there: %v", err)
	}
}

func TestCheckDropsVouchersWhoseSaleIsOver(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	g := s.gate(func(c *Config) { c.LookupAfterSale = time.Nanosecond })
	s.store.voucher.EndAt = time.Now().Add(-time.Minute)
	if err := s.buy(g, 1, 11); !errors.Is(err, voucher.ErrEnded) {
		t.Fatal(err)
	}
	for len(g.all()) > 0 { // until its worker has gone
		g.Check(t.Context())
	}
}
