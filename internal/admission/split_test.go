package admission

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// usersOf lists n users whose buckets are wanted.
func usersOf(n, buckets int, wanted func(bucket int) bool) []int64 {
	var users []int64
	for user := int64(1); len(users) < n; user++ {
		if wanted(ledger.BucketOf(user, buckets)) {
			users = append(users, user)
		}
	}
	return users
}

func anyBucket(int) bool { return true }

// crowd has each user buy twice, at the same time through two of the gates, and returns how many users were told that
// they have an order.
func crowd(t testing.TB, s *fixture, gates []*Gate, users []int64) int64 {
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

func TestSellsExactlyAll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		buckets, stock int
		wanted         func(bucket int) bool // the buyers'
	}{
		{"one bucket", 1, 100, anyBucket},
		{"two buckets", 2, 101, anyBucket},
		{"four buckets", 4, 100, anyBucket},
		{"all buyers in one of four", 4, 100, func(b int) bool { return b == 2 }},
		{"no stock", 4, 0, anyBucket},
		{"sixty-four buckets and one unit", 64, 1, anyBucket},
		{"sixty-four buckets, all buyers in the last one", 64, 40, func(b int) bool { return b == 63 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, testkit.AnyRedis(t), int64(c.stock))
			s.split(c.buckets)
			var draws atomic.Int64
			var gates []*Gate
			for range 3 {
				gates = append(gates, s.gate(func(c *Config) {
					c.Observer.Rebalanced = func(int64) { draws.Add(1) }
				}))
			}
			fail.Unequal(t, crowd(t, s, gates, usersOf(200, c.buckets, c.wanted)), int64(c.stock), "sold")
			if most := int64(3 * c.buckets * 10); draws.Load() > most {
				t.Errorf("%d transfers, want at most %d", draws.Load(), most)
			}
			s.takeAll()
			s.balanced(gates[0], int64(c.stock))
			s.balanced(s.gate(nil), int64(c.stock)) // a process that has seen nothing of it
			fail.Unequal(t, s.store.epochState.Epoch, 2, "closed without a reason: epoch")
		})
	}
}

// ordersOf looks up all users at the same time, and returns the order of each.
func ordersOf(t *testing.T, g *Gate, users []int64) map[int64]int64 {
	t.Helper()
	var mu sync.Mutex
	var asking sync.WaitGroup
	found := make(map[int64]int64)
	for _, user := range users {
		asking.Go(func() {
			o, err := g.OrdersOf(t.Context(), user)
			if err != nil || len(o) > 1 {
				t.Errorf("OrdersOf(%d) = %v, %v", user, o, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, one := range o {
				found[user] = one.ID
			}
		})
	}
	asking.Wait()
	return found
}

func TestProcessDiesDuringATransfer(t *testing.T) {
	t.Parallel()
	for name, heal := range map[string]func(g *Gate){
		"a buyer finds it":   func(*Gate) {},
		"a check settles it": func(g *Gate) { g.Check(context.Background()) },
	} {
		inBubble(t, 40, func(t *testing.T, s *fixture, _ *simulate.Redis) {
			s.split(4)
			c := s.config
			c.AttemptTimeout, c.DecisionTimeout = 2*time.Second, 3*time.Second
			var dead atomic.Bool // between the two steps of a transfer
			dies := newGate(c.WithDefaults(), &faulty{
				buckets: newLedger(c), call: func(_ context.Context, step string, _ ledger.Keys, do func() error) error {
					if dead.Load() {
						return io.EOF
					}
					err := do()
					if step == "give" {
						dead.Store(true)
						return io.EOF
					}
					return err
				},
			})
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
			fail.Unequal(t, sold, 10, "sold before the first transfer")
			if a, err := other.Audit(t.Context(), s.store.voucher.ID); err != nil || a.Stock != 30 || a.Pending != 10 {
				t.Errorf("with stock in transit: %+v, %v", a, err)
			}
			fail.NowIf(t, other.Open(t.Context(), &s.store.voucher))
			heal(other)
			all := ledger.New(s.client, ledger.Options{}).States(t.Context(), s.buckets())
			transit := all[0].To[3] + all[1].To[3] + all[2].To[3] - all[3].From[0] - all[3].From[1] - all[3].From[2]
			fail.Unequal(t, transit == 0, (name == "a check settles it"), "%d in transit", transit)
			fail.Unequal(t, crowd(t, s, []*Gate{other}, users), 40, "sold")
			s.takeAll()
			s.balanced(other, 40)
		})
	}
}

// Redis loses data during a sale: everything, one bucket, or less. The sale goes on, and sells the whole stock to as
// many users, also where the lock excludes nobody.
func TestRedisLosesDataDuringASale(t *testing.T) {
	const stock = 120
	emptied := func(s *fixture, ctx context.Context) error { return s.client.FlushAll(ctx).Err() }
	for name, lose := range map[string]func(*fixture, context.Context) error{
		"everything": emptied, "everything of one": emptied,
		"one bucket": func(s *fixture, ctx context.Context) error {
			return s.client.Del(ctx, s.others[1].Meta, s.others[1].Users, s.others[1].Orders).Err()
		},
		"the hash of one bucket": func(s *fixture, ctx context.Context) error { return s.client.Del(ctx, s.others[1].Meta).Err() },
		"a transfer": func(s *fixture, ctx context.Context) error { // as a replica that lagged would
			for giver, keys := range s.buckets() {
				for i, receiver := range s.buckets() {
					to := ledger.FieldTo + fmt.Sprint(i)
					n, err := s.client.HGet(ctx, keys.Meta, to).Int64()
					// Without one that was received nothing would be lost: the stock would only go back.
					if received, _ := s.client.HGet(ctx, receiver.Meta, ledger.FieldFrom+fmt.Sprint(giver)).Int64(); err == nil && n > 0 && received == n {
						return errors.Join(s.client.HIncrBy(ctx, keys.Meta, to, -n).Err(), s.client.HIncrBy(ctx, keys.Meta, ledger.FieldStock, n).Err())
					}
				}
			}
			return errors.New("there was no transfer yet")
		},
	} {
		for _, excludes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, lock %t", name, excludes), func(t *testing.T) {
				s := newFixture(t, simulate.NewRedis(t).Options(), stock)
				buckets := 4
				if name == "everything of one" {
					buckets = 1
				}
				s.split(buckets)
				if !excludes {
					s.config.Locker = grantsEverybody{}
				}
				gates := []*Gate{s.gate(nil), s.gate(nil), s.gate(nil)}
				finish := s.run()
				var accepted atomic.Int64
				var wg sync.WaitGroup
				buyers := usersOf(400, buckets, func(b int) bool { return b != 0 || buckets == 1 })
				users, later := buyers[:200], buyers[200:]
				for w := range 20 {
					wg.Go(func() {
						for n, user := range users[w*10 : (w+1)*10] {
							g := gates[(n+w)%3]
							err := s.buy(g, user, 1_000_000+user)
							for errors.Is(err, order.ErrUnavailable) {
								err = s.buy(g, user, 1_000_000+user)
							}
							if err == nil && accepted.Add(1) == 110 {
								fail.If(t, lose(s, context.Background()))
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
				fail.NowIf(t, last.Open(t.Context(), &s.store.voucher))
				// Stock whose orders were lost while pending is on sale again.
				finish = s.run()
				crowd(t, s, []*Gate{last}, later)
				finish()
				if s.store.epochState.Epoch <= 2 && (name != "a transfer" || !s.transfersAgree()) {
					t.Errorf("epoch %d: the loss was not noticed", s.store.epochState.Epoch)
				}
				s.balanced(last, stock)
			})
		}
	}
}

// transfersAgree reports whether every bucket has received what the others gave it. So it is where a bucket lost a
// transfer and gave as much again before anybody compared: what it gave is a total, so the other one received only the
// rest, and nothing is missing.
func (s *fixture) transfersAgree() bool {
	for giver, keys := range s.buckets() {
		for i, receiver := range s.buckets() {
			given, _ := s.client.HGet(context.Background(), keys.Meta, ledger.FieldTo+fmt.Sprint(i)).Int64()
			received, _ := s.client.HGet(context.Background(), receiver.Meta, ledger.FieldFrom+fmt.Sprint(giver)).Int64()
			if given != received {
				return false
			}
		}
	}
	return true
}

// The first opener dies with some of the buckets open. The next one starts over, and orders that were accepted in
// between count.
func TestOpenerDiesBetweenTwoBuckets(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 100)
	s.split(4)
	st, err := s.store.Open(t.Context(), s.store.voucher.ID, 1)
	fail.NowIf(t, err)
	server := ledger.New(s.client, ledger.Options{})
	first := s.gate(nil).voucher(&s.store.voucher)
	for _, keys := range s.buckets() {
		fail.NowIf(t, fail.Of(server.Close(t.Context(), keys, 1)))
	}
	if ok, err := server.Open(t.Context(), s.keys, first.opening(st, 0)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	users := usersOf(5, 4, func(b int) bool { return b == 0 })
	var orders []order.Order
	for _, user := range users {
		orders = append(orders, order.Order{ID: 1_000_000 + user, UserID: user})
	}
	if a, err := server.Admit(t.Context(), batchOf(s.keys, ledger.Known{Epoch: 2}, orders...)); err != nil || a.Outcomes != "aaaaa" {
		t.Fatal(a, err)
	}
	g := s.gate(nil)
	fail.Unless(t, fail.Of(g.Audit(t.Context(), s.store.voucher.ID)), order.ErrUnavailable, "Audit of a voucher half open")
	finish := s.run()
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	fail.Unequal(t, crowd(t, s, []*Gate{g}, append(users, usersOf(300, 4, func(b int) bool { return b != 0 })...)), 100, "sold, with the 5 before")
	finish()
	if len(s.store.rejected) > 0 || s.store.epochState.Epoch != 4 {
		t.Errorf("%d rejected, epoch %d", len(s.store.rejected), s.store.epochState.Epoch)
	}
	s.balanced(g, 100)
}

func TestPendingOrdersAreBoundedPerBucket(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 100)
	s.split(4)
	g := s.gate(func(c *Config) { c.MaxPending = 6 }) // 2 in each
	users := usersOf(3, 4, func(b int) bool { return b == 1 })
	for i, want := range []error{nil, nil, order.ErrOverloaded} {
		fail.Unless(t, s.buy(g, users[i], 100+users[i]), want, "order %d of a bucket", i+1)
	}
	fail.Unless(t, s.buy(g, usersOf(1, 4, func(b int) bool { return b == 2 })[0], 5), nil, "the first of another bucket")
	// Another number of buckets than the database has is a mistake, not a reason to rebuild.
	other := s.store.voucher
	other.Policy.Buckets = 3
	wrong := s.gate(func(c *Config) { c.OpenWait = 50 * time.Millisecond })
	err := wrong.Admit(t.Context(), &other, order.Order{ID: 9, UserID: 9})
	for !errors.Is(err, errBucketCount) && t.Context().Err() == nil { // until the gate has found the mistake
		err = wrong.Admit(t.Context(), &other, order.Order{ID: 9, UserID: 9})
	}
	fail.Unless(t, err, order.ErrUnavailable, "with another number of buckets")
	fail.Unequal(t, s.store.epochState.Epoch, 2, "epoch")
}
