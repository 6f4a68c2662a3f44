package admission

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
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

// A server that comes back with older data knows less than it did, and looks whole.
func TestRestoredFromOlderData(t *testing.T) {
	server := testkit.NewRedis(t, "--appendonly", "no")
	s := newStage(t, server.Addr(), 100)
	g := s.gate(nil)
	if sold := rush(t, s, []*Gate{g}, 10); sold != 10 {
		t.Fatal(sold)
	}
	if err := s.client.Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	dump := filepath.Join(server.Dir(), "dump.rdb")
	old, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	for user := range int64(20) {
		if err := s.buy(g, 100+user, 500+user); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.take(t.Context(), false); n != 30 || err != nil { // all persisted
		t.Fatal(n, err)
	}
	server.Kill()
	if err := os.WriteFile(dump, old, 0o600); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	finish := s.run()
	if err := s.buy(g, 100, 999); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order of a user that Redis had forgotten: %v", err)
	}
	if err := s.buy(s.gate(nil), 500, 5000); err != nil {
		t.Errorf("a new user: %v", err)
	}
	finish()
	s.balanced(g, 31)
	if s.shelf.standing.Epoch <= 2 {
		t.Error("the voucher was not closed in between")
	}
}

// A process that starts after the loss does not know what the others saw; the database
// does.
func TestNewProcessFindsRedisBehindTheDatabase(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 100)
	rush(t, s, []*Gate{s.gate(nil)}, 10)
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	s.lose(t, 5)
	fresh := s.gate(nil)
	if err := s.buy(fresh, 10, 999); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order of a user that Redis had forgotten: %v", err)
	}
	s.balanced(fresh, 10)
}

// lose has Redis forget the last n acceptances: users, stock and sequence.
func (s *stage) lose(t *testing.T, n int64) {
	t.Helper()
	ctx := t.Context()
	users := s.client.HGetAll(ctx, s.keys.Users).Val()
	seq, _ := s.client.HGet(ctx, s.keys.Meta, "seq").Int64()
	for user, id := range users {
		if _, atEnd := s.lastOrders(n)[user]; atEnd {
			if err := s.client.HDel(ctx, s.keys.Users, user).Err(); err != nil {
				t.Fatal(err)
			}
			_ = id
		}
	}
	if err := s.client.HSet(ctx, s.keys.Meta, "seq", seq-n).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.client.HIncrBy(ctx, s.keys.Meta, "stock", n).Err(); err != nil {
		t.Fatal(err)
	}
}

// lastOrders are the users of the last n orders by id.
func (s *stage) lastOrders(n int64) map[string]bool {
	last := map[string]bool{}
	s.shelf.mu.Lock()
	defer s.shelf.mu.Unlock()
	for user, o := range s.shelf.orders {
		later := int64(0)
		for _, other := range s.shelf.orders {
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

// After the loss another process sells on, until Redis' sequence is past what this one
// has seen. This one misses its own last order.
func TestLossIsFoundAlthoughOthersSoldOn(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 100)
	mine, other := s.gate(nil), s.gate(nil)
	if err := other.Open(t.Context(), &s.shelf.voucher); err != nil {
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
	if s.shelf.standing.Epoch <= 2 {
		t.Errorf("epoch %d: the loss was not noticed", s.shelf.standing.Epoch)
	}
	s.balanced(mine, 13)
}

// What was given back is no loss.
func TestGivenBackIsNotForgotten(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 100)
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
	if s.shelf.standing.Epoch != 2 {
		t.Errorf("epoch %d: the voucher was closed for nothing", s.shelf.standing.Epoch)
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

func TestRunFindsALossWithoutBuyers(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 10)
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
