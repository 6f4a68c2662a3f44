package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// usersOf lists n users, from those whose bucket is wanted.
func usersOf(n, buckets int, wanted func(bucket int) bool) []int64 {
	var users []int64
	for user := int64(1); len(users) < n; user++ {
		if wanted(admkey.Bucket(user, buckets)) {
			users = append(users, user)
		}
	}
	return users
}

func anyBucket(int) bool { return true }

// crowd has each user buy twice, at the same time through two of the gates, and returns
// how many were told that they have one.
func crowd(t testing.TB, s *stage, gates []*Gate, users []int64) int64 {
	t.Helper()
	var sold atomic.Int64
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i, user := range users {
		var told atomic.Bool
		for try := range 2 {
			wg.Go(func() {
				<-start
				g := gates[(i+try)%len(gates)]
				err := s.buy(g, user, 1_000_000+user)
				for errors.Is(err, order.ErrUnavailable) {
					err = s.buy(g, user, 1_000_000+user)
				}
				switch {
				case err == nil && !told.Swap(true):
					sold.Add(1)
				case err != nil && !errors.Is(err, voucher.ErrSoldOut):
					t.Errorf("user %d: %v", user, err)
				}
			})
		}
	}
	close(start)
	wg.Wait()
	return sold.Load()
}

func TestSplitVoucherSellsExactlyAll(t *testing.T) {
	addr := testkit.Redis(t).Addr()
	for _, c := range []struct {
		name           string
		buckets, stock int
		wanted         func(bucket int) bool
	}{
		{"two buckets", 2, 501, anyBucket},
		{"four buckets", 4, 500, anyBucket},
		{"all buyers in one of four", 4, 500, func(b int) bool { return b == 2 }},
		{"sixty-four buckets", 64, 500, anyBucket},
		{"sixty-four buckets and one piece", 64, 1, anyBucket},
		{"sixty-four buckets, all buyers in the last one", 64, 40, func(b int) bool { return b == 63 }},
		{"no stock", 4, 0, anyBucket},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, addr, int64(c.stock))
			s.split(c.buckets)
			var draws atomic.Int64
			var gates []*Gate
			for range 3 {
				gates = append(gates, s.gate(func(c *Config) {
					c.Patience = 20 * time.Second // as this machine may be busy
					c.Observer.Drawn = func(int64) { draws.Add(1) }
				}))
			}
			if sold := crowd(t, s, gates, usersOf(1000, c.buckets, c.wanted)); sold != int64(c.stock) {
				t.Errorf("%d sold, want %d", sold, c.stock)
			}
			t.Logf("%d draws", draws.Load())
			if most := int64(3 * c.buckets * 10); draws.Load() > most {
				t.Errorf("%d draws, want at most %d", draws.Load(), most)
			}
			s.takeAll()
			s.balanced(gates[0], int64(c.stock))
			s.balanced(s.gate(nil), int64(c.stock)) // a process that knows nothing of it
			if epoch := s.shelf.standing.Epoch; epoch != 2 {
				t.Errorf("epoch %d: the voucher was closed for nothing", epoch)
			}
		})
	}
}

func TestSplitVoucherOnACluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	for id, wanted := range []func(int) bool{anyBucket, func(b int) bool { return b == 1 }} {
		const buckets = 6
		sh := newShelf(300)
		sh.voucher.ID += int64(id)
		s := &stage{t: t, consumer: &consumer{tb: t, client: client, shelf: sh, keys: admkey.Of("split:", sh.voucher.ID, 0)}}
		s.config = Config{Client: client, Shelf: sh, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: "split:", Patience: 20 * time.Second}
		s.split(buckets)
		nodes := map[string]bool{}
		for _, keys := range s.buckets() {
			node, err := client.MasterForKey(t.Context(), keys.Meta)
			if err != nil {
				t.Fatal(err)
			}
			nodes[node.Options().Addr] = true
		}
		if len(nodes) < 2 {
			t.Fatalf("all buckets are on %v", nodes)
		}
		gates := []*Gate{s.gate(nil), s.gate(nil)}
		users := usersOf(600, buckets, wanted)
		if sold := crowd(t, s, gates, users); sold != 300 {
			t.Errorf("%d sold, want 300", sold)
		}
		s.takeAll()
		for user := range sh.orders {
			if o, err := gates[1].OrdersOf(t.Context(), user); err != nil || len(o) != 1 || o[0].ID != 1_000_000+user {
				t.Errorf("OrdersOf(%d) = %v, %v", user, o, err)
			}
		}
		// Rebuilt on the cluster, too.
		if err := client.Del(t.Context(), s.others[2].Meta, s.others[2].Users).Err(); err != nil {
			t.Fatal(err)
		}
		gates[0].Check(t.Context())
		if err := gates[0].Open(t.Context(), &sh.voucher); err != nil {
			t.Fatal(err)
		}
		for user := range sh.orders {
			if err := s.buy(s.gate(nil), user, 5); !errors.Is(err, order.ErrAlreadyOrdered) {
				t.Errorf("user %d, after the rebuild: %v", user, err)
				break
			}
		}
		s.balanced(gates[1], 300)
	}
}

func TestProcessDiesInTheMiddleOfADraw(t *testing.T) {
	for name, heal := range map[string]func(g *Gate){
		"a buyer finds it":   func(*Gate) {},
		"a check settles it": func(g *Gate) { g.Check(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, testkit.Redis(t).Addr(), 40)
			s.split(4)
			c := s.config
			c.Patience = c.WithDefaults().AttemptTimeout
			dies := newGate(c.WithDefaults(), &dying{decider: newServer(c.Client)})
			defer func() { _ = dies.Close() }()
			users := usersOf(60, 4, func(b int) bool { return b == 3 })
			var sold int64
			for _, user := range users {
				err := s.buy(dies, user, 1_000_000+user)
				if errors.Is(err, order.ErrUnavailable) {
					break
				}
				sold++
			}
			other := s.gate(nil)
			if sold != 10 {
				t.Errorf("%d sold before the first draw, want 10", sold)
			}
			if a, err := other.Audit(t.Context(), s.shelf.voucher.ID); err != nil || a.Stock != 30 || a.Pending != 10 {
				t.Errorf("with stock in transit: %+v, %v", a, err)
			}
			if err := other.Open(t.Context(), &s.shelf.voucher); err != nil {
				t.Fatal(err)
			}
			heal(other)
			all := newServer(s.client).states(t.Context(), s.buckets())
			transit := all[0].to[3] + all[1].to[3] + all[2].to[3] - all[3].from[0] - all[3].from[1] - all[3].from[2]
			if healed := transit == 0; healed != (name == "a check settles it") {
				t.Errorf("%d in transit", transit)
			}
			if n := crowd(t, s, []*Gate{other}, users); n != 40 {
				t.Errorf("%d sold, want all 40", n)
			}
			s.takeAll()
			s.balanced(other, 40)
		})
	}
}

// Steps of draws fail and are carried out, or not, and more is lost than is answered.
func TestDrawsWithUnknownOutcome(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 400)
	s.split(5)
	var gates []*Gate
	for seed := range uint64(2) {
		c := s.config
		c.Patience = 20 * time.Second
		g := newGate(c.WithDefaults(), &unsteady{decider: newServer(c.Client), chance: rand.New(rand.NewPCG(seed, 1))})
		t.Cleanup(func() { _ = g.Close() })
		gates = append(gates, g)
	}
	if sold := crowd(t, s, gates, usersOf(600, 5, func(b int) bool { return b < 2 })); sold != 400 {
		t.Errorf("%d sold, want 400", sold)
	}
	s.takeAll()
	s.balanced(s.gate(nil), 400)
}

// Redis forgets in the middle of a split sale: everything, or one bucket. The sale goes
// on, and sells all of the stock to as many users.
func TestSplitVoucherForgottenInTheMiddleOfASale(t *testing.T) {
	const buckets, stock = 4, 1200
	for name, lose := range map[string]func(*stage, context.Context) error{
		"everything": func(s *stage, ctx context.Context) error { return s.client.FlushAll(ctx).Err() },
		"one bucket": func(s *stage, ctx context.Context) error {
			return s.client.Del(ctx, s.others[1].Meta, s.others[1].Users, s.others[1].Orders).Err()
		},
		"the hash of one bucket": func(s *stage, ctx context.Context) error { return s.client.Del(ctx, s.others[1].Meta).Err() },
		"a gift": func(s *stage, ctx context.Context) error { // as a replica that lagged would
			for _, keys := range s.buckets() {
				for i := range buckets {
					to := admkey.To + fmt.Sprint(i)
					if n, err := s.client.HGet(ctx, keys.Meta, to).Int64(); err == nil && n > 0 {
						return errors.Join(s.client.HIncrBy(ctx, keys.Meta, to, -n).Err(), s.client.HIncrBy(ctx, keys.Meta, admkey.Stock, n).Err())
					}
				}
			}
			return errors.New("there was no draw yet")
		},
	} {
		for _, excludes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lock %t", name, excludes), func(t *testing.T) {
				s := newStage(t, testkit.NewRedis(t).Addr(), stock)
				s.split(buckets)
				if !excludes {
					s.config.Locker = everybody{}
				}
				gates := []*Gate{s.gate(nil), s.gate(nil), s.gate(nil)}
				finish := s.run()
				var accepted atomic.Int64
				var wg sync.WaitGroup
				users := usersOf(2000, buckets, func(b int) bool { return b != 0 })
				for w := range 40 {
					wg.Go(func() {
						for n, user := range users[w*50 : (w+1)*50] {
							g := gates[(n+w)%3]
							err := s.buy(g, user, 1_000_000+user)
							for errors.Is(err, order.ErrUnavailable) {
								err = s.buy(g, user, 1_000_000+user)
							}
							if err == nil && accepted.Add(1) == 1100 {
								if err := lose(s, context.Background()); err != nil {
									t.Error(err)
								}
							}
							if err != nil && !errors.Is(err, voucher.ErrSoldOut) {
								t.Errorf("user %d: %v", user, err)
							}
						}
					})
				}
				wg.Wait()
				gates[0].Check(t.Context()) // where nobody bought any more
				finish()
				last := s.gate(nil)
				if err := last.Open(t.Context(), &s.shelf.voucher); err != nil {
					t.Fatal(err)
				}
				// What was lost on its way is on sale again.
				finish = s.run()
				crowd(t, s, []*Gate{last}, usersOf(4000, buckets, func(b int) bool { return b != 0 })[2000:])
				finish()
				t.Logf("%d told accepted, %d orders, %d rejected, epoch %d", accepted.Load(), len(s.shelf.orders), len(s.shelf.rejected), s.shelf.standing.Epoch)
				if s.shelf.standing.Epoch <= 2 {
					t.Errorf("epoch %d: the loss was not noticed", s.shelf.standing.Epoch)
				}
				s.balanced(last, stock)
			})
		}
	}
}

// The first opener dies with some of the buckets open. The next one begins anew, and
// what was accepted in between counts.
func TestOpenerDiesBetweenTwoBuckets(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 100)
	s.split(4)
	st, err := s.shelf.Open(t.Context(), s.shelf.voucher.ID, 1)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(s.client)
	first := s.gate(nil).pool(&s.shelf.voucher)
	for _, keys := range s.buckets() {
		if _, err := server.shut(t.Context(), keys, 1); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := server.begin(t.Context(), s.keys, first.part(st, 0)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	users := usersOf(5, 4, func(b int) bool { return b == 0 })
	c := &call{keys: s.keys, seen: seen{epoch: 2}, bound: 100, expiry: time.Now().Add(time.Hour).UnixMilli()}
	for _, user := range users {
		c.batch = append(c.batch, new(rides).get(t.Context(), order.Order{ID: 1_000_000 + user, UserID: user}))
	}
	if a, err := server.decide(t.Context(), c); err != nil || a.states != "aaaaa" {
		t.Fatal(a, err)
	}
	g := s.gate(nil)
	if _, err := g.Audit(t.Context(), s.shelf.voucher.ID); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("Audit of a voucher half open: %v", err)
	}
	finish := s.run()
	if err := g.Open(t.Context(), &s.shelf.voucher); err != nil {
		t.Fatal(err)
	}
	if sold := crowd(t, s, []*Gate{g}, append(users, usersOf(300, 4, func(b int) bool { return b != 0 })...)); sold != 100 {
		t.Errorf("%d sold, want 100 with the 5 before", sold)
	}
	finish()
	if len(s.shelf.rejected) > 0 || s.shelf.standing.Epoch != 4 {
		t.Errorf("%d rejected, epoch %d", len(s.shelf.rejected), s.shelf.standing.Epoch)
	}
	s.balanced(g, 100)
}

func TestSplitVoucherIsBoundByBucket(t *testing.T) {
	s := newStage(t, testkit.Redis(t).Addr(), 100)
	s.split(4)
	g := s.gate(func(c *Config) { c.MaxPending = 6 }) // 2 in each
	users := usersOf(3, 4, func(b int) bool { return b == 1 })
	for i, want := range []error{nil, nil, order.ErrOverloaded} {
		if err := s.buy(g, users[i], 100+users[i]); !errors.Is(err, want) {
			t.Errorf("order %d of a bucket: %v, want %v", i+1, err, want)
		}
	}
	if err := s.buy(g, usersOf(1, 4, func(b int) bool { return b == 2 })[0], 5); err != nil {
		t.Errorf("the first of another bucket: %v", err)
	}
	// Another number of buckets than the database has is a mistake, not a reason to rebuild.
	other := s.shelf.voucher
	other.Policy.Buckets = 3
	wrong := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	if err := wrong.Admit(t.Context(), &other, order.Order{ID: 9, UserID: 9}); !errors.Is(err, errBuckets) || !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("with another number of buckets: %v", err)
	}
	if s.shelf.standing.Epoch != 2 {
		t.Errorf("epoch %d", s.shelf.standing.Epoch)
	}
}
