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
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// everybody grants a lock to whoever asks: what a lock is worth whose holder was paused.
type everybody struct{}

func (everybody) Acquire(ctx context.Context, key string, _ lock.Options) (lock.Lease, error) {
	return lock.NewHeld(ctx, lock.Grant{Key: key, Owner: "me", Release: func(context.Context) error { return nil }}), nil
}

// Redis is emptied in the middle of a sale, with orders persisted and orders on their
// way. The sale goes on, and sells all of the stock to as many users.
func TestEmptiedInTheMiddleOfASale(t *testing.T) {
	for name, locker := range map[string]func(*stage) lock.Locker{
		"": func(s *stage) lock.Locker {
			l, err := reentrant.New(s.client.(*redis.Client), reentrant.Config{Prefix: s.prefix})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return l
		},
		"although the lock excludes nobody": func(*stage) lock.Locker { return everybody{} },
	} {
		t.Run(name, func(t *testing.T) {
			server := testkit.NewRedis(t)
			s := newStage(t, server.Addr(), 2000)
			s.config.Locker = locker(s)
			gates := []*Gate{s.gate(nil), s.gate(nil), s.gate(nil)}
			finish := s.run()
			var accepted atomic.Int64
			var wg sync.WaitGroup
			for w := range int64(60) {
				wg.Go(func() {
					for n := range int64(60) {
						user := w*60 + n + 1
						err := s.buy(gates[user%3], user, 100_000+user)
						for errors.Is(err, order.ErrUnavailable) {
							err = s.buy(gates[user%3], user, 100_000+user)
						}
						if err == nil && accepted.Add(1) == 700 {
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
			t.Logf("%d told accepted, %d orders, %d rejected, epoch %d", accepted.Load(), len(s.shelf.orders), len(s.shelf.rejected), s.shelf.standing.Epoch)
			s.balanced(s.gate(nil), 2000)
		})
	}
}

// The epoch changes while buyers are on their way: orders that were accepted under the
// old one are drained and counted, the others decided under the new one.
func TestEpochChangesUnderLoad(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 1500)
	gates := []*Gate{s.gate(nil), s.gate(nil)}
	finish := s.run()
	var accepted atomic.Int64
	var wg sync.WaitGroup
	for w := range int64(50) {
		wg.Go(func() {
			for n := range int64(40) {
				user := w*40 + n + 1
				err := s.buy(gates[user%2], user, 100_000+user)
				for errors.Is(err, order.ErrUnavailable) {
					err = s.buy(gates[user%2], user, 100_000+user)
				}
				if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
					t.Errorf("user %d: %v", user, err)
				}
				if err == nil && accepted.Add(1)%200 == 0 { // as another process would that distrusts Redis
					_, _ = s.shelf.Close(t.Context(), s.shelf.voucher.ID)
					gates[0].Check(t.Context())
				}
			}
		})
	}
	wg.Wait()
	finish()
	t.Logf("%d epochs", s.shelf.standing.Epoch/2)
	if s.shelf.standing.Epoch < 6 || len(s.shelf.rejected) > 0 {
		t.Errorf("epoch %d, %d rejected", s.shelf.standing.Epoch, len(s.shelf.rejected))
	}
	last := s.gate(nil)
	if err := last.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	s.balanced(last, 1500)
}

// A process that was stopped between the database and Redis comes back when others
// have opened the voucher under a later epoch.
func TestLateOpenerChangesNothing(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 10)
	s.config.Locker = everybody{}
	stopped, goOn := make(chan struct{}), make(chan struct{})
	var opens atomic.Int64
	s.shelf.onOpen = func() {
		if opens.Add(1) == 1 {
			close(stopped)
			<-goOn
		}
	}
	slow, quick := s.gate(nil), s.gate(nil)
	opened := make(chan error, 1)
	go func() { opened <- slow.Open(context.Background(), &s.shelf.voucher) }()
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

func TestDrainIsWaitedFor(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 10)
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
	if _, err := g.Audit(t.Context(), s.shelf.voucher.ID); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("Audit while closed: %v", err)
	}
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	if err := s.buy(g, 1, 12); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("the user who was drained: %v", err)
	}
	s.balanced(g, 1)
}

func TestManyUsersAreCopied(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 5000)
	for user := range int64(2*fillPage + 1) {
		s.shelf.orders[user+1] = order.Order{ID: user + 10_000, UserID: user + 1}
		s.shelf.standing.Stock--
	}
	g := s.gate(nil)
	for _, user := range []int64{1, fillPage, 2*fillPage + 1} {
		if err := s.buy(g, user, 1); !errors.Is(err, order.ErrAlreadyOrdered) {
			t.Errorf("user %d: %v", user, err)
		}
	}
	if ttl := s.client.TTL(t.Context(), s.keys.Users).Val(); ttl != -1 {
		t.Errorf("the users would be gone in %v", ttl)
	}
	s.balanced(g, 2*fillPage+1)
}

func TestOpeningFails(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 10)
	g := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	s.shelf.fail(errors.Join(order.ErrUnavailable, io.EOF))
	if err := s.buy(g, 1, 11); !errors.Is(err, order.ErrUnavailable) || !errors.Is(err, io.EOF) {
		t.Errorf("without a database: %v", err)
	}
	s.shelf.fail(nil)
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Errorf("with it: %v", err)
	}
	missing := s.shelf.voucher
	missing.ID = 5
	if err := g.Open(t.Context(), &missing); !errors.Is(err, voucher.ErrNotFound) {
		t.Errorf("a voucher that is not there: %v", err)
	}
}

func TestForgetsVouchersThatAreOver(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 10)
	g := s.gate(func(c *Config) { c.Remembered = time.Nanosecond })
	s.shelf.voucher.EndAt = time.Now().Add(-time.Minute)
	if err := s.buy(g, 1, 11); !errors.Is(err, voucher.ErrEnded) {
		t.Fatal(err)
	}
	for len(g.all()) > 0 { // until its worker has gone
		g.Check(t.Context())
	}
}
