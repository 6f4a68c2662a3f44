package admission

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock"
	"seckill/internal/lock/local"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// rush has users 1 to n buy at the same time, each through one of the gates, and returns how many were
// accepted. The test fails on errors other than the expected ones.
func rush(t testing.TB, s *fixture, gates []*Gate, n int64, expected ...error) int64 {
	t.Helper()
	var sold atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for user := range n {
		wg.Go(func() {
			<-start
			err := s.buy(gates[user%int64(len(gates))], user+1, 10_000+user)
			if err == nil {
				sold.Add(1)
				return
			}
			for _, e := range expected {
				if errors.Is(err, e) {
					return
				}
			}
			t.Errorf("user %d: %v", user+1, err)
		})
	}
	close(start)
	wg.Wait()
	return sold.Load()
}

func TestSellsExactlyTheStock(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 500)
	gates := []*Gate{s.gate(nil), s.gate(nil)}
	if sold := rush(t, s, gates, 2000, voucher.ErrSoldOut); sold != 500 {
		t.Errorf("%d accepted, want 500", sold)
	}
	if n, err := s.take(t.Context(), false); n != 500 || err != nil {
		t.Errorf("%d orders in the stream, %v; want 500", n, err)
	}
	s.balanced(gates[0], 500)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 3)
	g := s.gate(func(c *Config) { c.MaxPending = 2 })
	for _, c := range []struct {
		name     string
		user, id int64
		want     error
	}{
		{"the first order", 1, 11, nil},
		{"the same again", 1, 11, nil},
		{"another one of the user", 1, 12, order.ErrAlreadyOrdered},
		{"the second user", 2, 21, nil},
		{"too many on their way", 3, 31, order.ErrOverloaded},
		{"known without asking", 4, 41, order.ErrOverloaded},
	} {
		if err := s.buy(g, c.user, c.id); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if _, err := s.take(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	testkit.Until(t, "an order after the others were persisted", func() bool { // the refusal is cached for a moment
		err := s.buy(g, 3, 31)
		if err != nil && !errors.Is(err, order.ErrOverloaded) {
			t.Fatalf("after the orders were persisted: %v", err)
		}
		return err == nil
	})
	if err := s.buy(g, 4, 41); !errors.Is(err, voucher.ErrSoldOut) {
		t.Errorf("after the last one: %v", err)
	}
	// Stock of an order that could not be carried out comes back, to one buyer.
	if n, err := s.take(t.Context(), true); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	testkit.Until(t, "an order after one was given back", func() bool { // the refusal is cached for a moment
		err := s.buy(g, 5, 51)
		if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
			t.Fatalf("after one was given back: %v", err)
		}
		return err == nil
	})
	if err := s.buy(s.gate(nil), 3, 32); !errors.Is(err, voucher.ErrSoldOut) {
		t.Errorf("the user whose order was rejected: %v, want sold out, as if there had been no order", err)
	}
}

func TestWindowIsByTheServersClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, to time.Duration
		want     error
	}{
		"before": {time.Hour, 2 * time.Hour, voucher.ErrNotStarted},
		"after":  {-2 * time.Hour, -time.Hour, voucher.ErrEnded},
	} {
		s := newFixture(t, testkit.AnyRedis(t), 3)
		now := time.Now()
		s.store.voucher.BeginAt, s.store.voucher.EndAt = now.Add(c.from), now.Add(c.to)
		g := s.gate(nil)
		for range 2 {
			if err := s.buy(g, 1, 11); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
		}
	}
}

// Replies are lost: the script runs, and the gate does not learn the result.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 50)
	proxy := testkit.NewProxy(t, s.options.Addr)
	g := s.gate(func(c *Config) {
		c.Client = dial(t, at(proxy.Addr()))
		c.AttemptTimeout, c.DecisionTimeout = 200*time.Millisecond, 5*time.Second
	})
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	if err := s.buy(g, 1000, 20_000); err != nil { // the server has the script from here on
		t.Fatal(err)
	}
	proxy.BlackholeReplies()
	healed := make(chan struct{})
	go func() {
		defer close(healed)
		for s.client.XLen(context.Background(), s.keys.Orders).Val() == 1 { // until it has run
			time.Sleep(time.Millisecond)
		}
		proxy.Reset()
	}()
	if sold := rush(t, s, []*Gate{g}, 40); sold != 40 {
		t.Errorf("%d of 40 accepted", sold)
	}
	<-healed
	if n, err := s.take(t.Context(), false); n != 41 || err != nil {
		t.Errorf("%d orders in the stream, %v; want 41", n, err)
	}
	s.balanced(g, 41)
}

// Connections are cut again and again. A buyer whose outcome is unknown does what the
// service does: looks the order up, and sends it again with the same id.
func TestCutConnections(t *testing.T) {
	t.Parallel()
	const stock, buyers, each = 3000, 20, 200
	s := newFixture(t, testkit.AnyRedis(t), stock)
	proxy := testkit.NewProxy(t, s.options.Addr)
	g := s.gate(func(c *Config) {
		c.Client, c.AttemptTimeout, c.DecisionTimeout = dial(t, at(proxy.Addr())), 100*time.Millisecond, 100*time.Millisecond
	})
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	finish := s.run()
	ctx, cancel := context.WithCancel(t.Context())
	var cutting sync.WaitGroup
	cutting.Go(func() {
		for ctx.Err() == nil {
			proxy.Reset() // cuts what is open
			time.Sleep(30 * time.Millisecond)
		}
	})
	var sold, repeats atomic.Int64
	var wg sync.WaitGroup
	for b := range int64(buyers) {
		wg.Go(func() {
			for n := range int64(each) {
				user := b*each + n + 1
				err := s.buy(g, user, 100_000+user)
				for errors.Is(err, order.ErrUnavailable) {
					repeats.Add(1)
					time.Sleep(time.Millisecond) // as clients do
					if err = s.find(ctx, g, user, 100_000+user); errors.Is(err, order.ErrNotFound) {
						err = s.buy(g, user, 100_000+user)
					}
				}
				if err == nil {
					sold.Add(1)
				} else if !errors.Is(err, voucher.ErrSoldOut) {
					t.Errorf("user %d: %v", user, err)
				}
			}
		})
	}
	wg.Wait()
	cancel()
	cutting.Wait()
	finish()
	t.Logf("%d accepted, %d repetitions", sold.Load(), repeats.Load())
	if sold.Load() != stock || len(s.store.rejected) != 0 {
		t.Errorf("%d told accepted, %d rejected; want %d and 0", sold.Load(), len(s.store.rejected), stock)
	}
	s.balanced(s.gate(nil), stock)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	addrs := testkit.RedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	for id := range int64(5) { // in different slots
		sh := newStore(100)
		sh.voucher.ID += id
		s := &fixture{t: t, consumer: &consumer{tb: t, client: client, store: sh, keys: ledger.KeysOf("c:", sh.voucher.ID, 0)}}
		s.config = Config{Client: client, Store: sh, Workers: workers{complete: true}, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: "c:",
			AttemptTimeout: 10 * time.Second, DecisionTimeout: 30 * time.Second, OpenWait: 5 * time.Second, // a busy machine is no outage
		}
		g := s.gate(nil)
		if sold := rush(t, s, []*Gate{g, s.gate(nil)}, 300, voucher.ErrSoldOut); sold != 100 {
			t.Errorf("%d sold, want 100", sold)
		}
		if o, err := g.OrdersOf(t.Context(), s.someBuyer()); err != nil || len(o) != 1 {
			t.Errorf("OrdersOf = %v, %v", o, err)
		}
		if n, err := s.take(t.Context(), false); n != 100 || err != nil {
			t.Errorf("took %d, %v", n, err)
		}
		// Rebuilt on the cluster, too.
		if err := client.Del(t.Context(), s.keys.Meta).Err(); err != nil {
			t.Fatal(err)
		}
		if err := s.buy(s.gate(nil), 5000, 5000); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("after the rebuild: %v", err)
		}
		s.balanced(g, 100)
	}
}

// someBuyer returns the user of an order in Redis.
func (s *fixture) someBuyer() int64 {
	users, _ := s.client.HKeys(context.Background(), s.keys.Users).Result()
	if len(users) == 0 {
		return 0
	}
	id, _ := strconv.ParseInt(users[0], 10, 64)
	return id
}

func TestScriptsDeclareTheirKeys(t *testing.T) {
	t.Parallel()
	var s *fixture
	redisstore.DeclaresKeys(t, func(client *redis.Client, prefix string) (lock.Locker, error) {
		sh := newStore(3)
		s = &fixture{t: t, consumer: &consumer{tb: t, client: client, store: sh, keys: ledger.KeysOf(prefix, sh.voucher.ID, 0)}}
		s.config = Config{Client: client, Store: sh, Workers: workers{complete: true}, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: prefix}
		s.split(2)
		return local.New(), nil
	}, func(ctx context.Context, _ lock.Locker) {
		for range 2 { // the second time by EVALSHA, and with users to copy
			g := s.gate(nil)
			for _, user := range usersOf(5, 2, func(b int) bool { return b == 1 }) { // with draws
				_ = s.buy(g, user, user+100)
			}
			_, _ = s.take(ctx, false)
			_, _ = g.Audit(ctx, s.store.voucher.ID)
			_ = s.client.Del(ctx, s.keys.Meta)
		}
	})
}

func TestEmbeddedRedis(t *testing.T) {
	t.Parallel()
	for _, buckets := range []int{1, 3} {
		t.Run(strconv.Itoa(buckets), func(t *testing.T) { embeddedRedis(t, buckets) })
	}
}

func embeddedRedis(t *testing.T, buckets int) {
	server := miniredis.RunT(t)
	s := newFixture(t, at(server.Addr()), 20)
	s.split(buckets)
	g := s.gate(nil)
	if sold := rush(t, s, []*Gate{g}, 50, voucher.ErrSoldOut); sold != 20 {
		t.Errorf("%d sold, want 20", sold)
	}
	if err := s.buy(s.gate(nil), s.someBuyer(), 99); !errors.Is(err, order.ErrAlreadyOrdered) {
		t.Errorf("a second order: %v", err)
	}
	if n, err := s.take(t.Context(), false); n != 20 || err != nil {
		t.Errorf("took %d, %v", n, err)
	}
	server.FlushAll()
	if err := s.buy(g, 99, 990); !errors.Is(err, voucher.ErrSoldOut) {
		t.Errorf("after Redis was emptied: %v", err)
	}
	if err := s.buy(s.gate(nil), 99, 990); !errors.Is(err, voucher.ErrSoldOut) {
		t.Errorf("after Redis was emptied, in another process: %v", err)
	}
	s.balanced(g, 20)
}

func TestMemoryPerOrder(t *testing.T) {
	server := testkit.NewRedis(t)
	const orders = 100_000
	s := newFixture(t, at(server.Addr()), orders)
	g := s.gate(func(c *Config) { c.MaxPending = orders })
	used := func() int64 {
		info := s.client.InfoMap(t.Context(), "memory")
		n, err := strconv.ParseInt(info.Item("Memory", "used_memory"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if err := g.Open(t.Context(), &s.store.voucher); err != nil {
		t.Fatal(err)
	}
	before := used()
	var wg sync.WaitGroup
	for w := range int64(100) {
		wg.Go(func() {
			for n := range int64(orders / 100) {
				// Ids as they are in life: 19 digits for an order.
				if err := s.buy(g, 1_000_000_000+w*orders+n, 2_587_575_859_586_103_540+w*orders+n); err != nil {
					t.Errorf("buy: %v", err)
					return
				}
			}
		})
	}
	wg.Wait()
	waiting := float64(used()-before) / orders
	s.takeAll()
	after := float64(used()-before) / orders
	t.Logf("%.0f bytes per order before, %.0f after it is persisted", waiting, after)
	if after >= 200 {
		t.Errorf("%.0f bytes per order after it is persisted, want less than 200", after)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := newFixture(t, at("127.0.0.1:1"), 1).config
	for name, change := range map[string]func(*Config){
		"incomplete":            func(c *Config) { c.Store = nil },
		"AttemptTimeout":        func(c *Config) { c.AttemptTimeout = time.Microsecond },
		"DecisionTimeout":       func(c *Config) { c.DecisionTimeout = time.Millisecond },
		"must not be negative":  func(c *Config) { c.OpenWait = -1 },
		"MaxPending and MaxInF": func(c *Config) { c.MaxPending = -1 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Await is the consumers' part of the gate.
func TestAwaitAsksTheConsumers(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 1)
	g := s.gate(func(c *Config) { c.Workers = workers{err: context.Canceled} })
	if err := g.Await(t.Context(), order.Order{ID: 1}, time.Second); !errors.Is(err, context.Canceled) {
		t.Errorf("Await = %v, want the consumers' answer", err)
	}
}
