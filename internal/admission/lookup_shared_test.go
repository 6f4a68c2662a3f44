package admission

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// otherVoucher is a voucher beside the fixture's, with orders that are pending: user -> order.
type otherVoucher struct {
	id, epoch int64
	buckets   int
	orders    map[int64]int64
}

// add adds vouchers to the database and to Redis.
func (s *fixture) add(vouchers ...otherVoucher) {
	s.t.Helper()
	line := s.client.Pipeline()
	for _, v := range vouchers {
		s.store.mu.Lock()
		s.store.others = append(s.store.others, contract.AdmissionVoucher{VoucherID: v.id, Buckets: v.buckets, Epoch: v.epoch})
		s.store.mu.Unlock()
		for n := range v.buckets {
			line.HSet(s.t.Context(), s.bucketOf(v.id, n).Meta, ledger.FieldEpoch, v.epoch)
		}
		for user, id := range v.orders {
			keys := s.bucketOf(v.id, ledger.BucketOf(user, v.buckets))
			line.HSet(s.t.Context(), keys.Users, user, ledger.Reserved(id, 0))
			line.XAdd(s.t.Context(), &redis.XAddArgs{Stream: keys.Orders, Values: []any{ledger.EntryOrder, id, ledger.EntryUser, user}})
		}
	}
	fail.NowIf(s.t, fail.Of(line.Exec(s.t.Context())))
}

func (s *fixture) bucketOf(voucher int64, bucket int) ledger.Keys {
	return ledger.KeysOf(s.config.Prefix, voucher, bucket)
}

// scanFor returns a scan that some users have joined, some of them more than once.
func scanFor(users ...int64) *scan {
	c := scanner{closing: context.Background(), spawn: func(func()) bool { return true }}
	s := c.join(users[0])
	for _, user := range users[1:] {
		c.join(user)
	}
	return s
}

// pipelines records the commands of each round trip of several commands.
type pipelines struct {
	before func(ctx context.Context, commands []redis.Cmder) error // may be nil

	mu    sync.Mutex
	trips [][]redis.Cmder
}

func (p *pipelines) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		p.mu.Lock()
		p.trips = append(p.trips, commands)
		p.mu.Unlock()
		if p.before != nil {
			if err := p.before(ctx, commands); err != nil {
				for _, c := range commands {
					c.SetErr(err)
				}
				return err
			}
		}
		return next(ctx, commands)
	}
}

// usersAsked returns how many users each HMGET of each round trip named.
func (p *pipelines) usersAsked() (trips [][]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, commands := range p.trips {
		var trip []int
		for _, c := range commands {
			if c.Name() == "hmget" {
				trip = append(trip, len(c.Args())-2)
			}
		}
		if len(trip) > 0 {
			trips = append(trips, trip)
		}
	}
	return trips
}

func asksForUsers(commands []redis.Cmder) bool {
	return slices.ContainsFunc(commands, func(c redis.Cmder) bool { return c.Name() == "hmget" })
}

func (s *fixture) gateWith(hook redis.Hook) *Gate {
	client := dial(s.t, s.options)
	client.AddHook(hook)
	return s.gate(func(c *Config) { c.Client = client })
}

// Each user is shown the user's own orders and no others, in one bucket or in several, whoever shares the scan.
func TestSharedScanShowsEachUserTheirOwn(t *testing.T) {
	t.Parallel()
	const users, vouchers = 120, 12
	s := newFixture(t, testkit.AnyRedis(t), 10)
	own := make(map[int64][]int64) // orders by user
	for n := range int64(vouchers) {
		v := otherVoucher{id: 8000 + n, buckets: 1 + int(n%3)*2, epoch: 2, orders: make(map[int64]int64)}
		for user := int64(1); user <= users; user++ {
			if user%10 != 0 && (user+n)%4 == 0 { // every tenth has none
				id := 100_000 + n*1000 + user
				v.orders[user], own[user] = id, append(own[user], id)
			}
		}
		s.add(v)
	}
	g := s.gate(nil)
	var asking sync.WaitGroup
	for user := int64(1); user <= users; user++ {
		asking.Go(func() {
			all, err := g.OrdersOf(t.Context(), user)
			var ids []int64
			for _, o := range all {
				if ids = append(ids, o.ID); o.UserID != user || o.VoucherID != 8000+(o.ID-100_000)/1000 || o.Status != order.Pending {
					t.Errorf("user %d: %+v", user, o)
				}
			}
			if slices.Sort(ids); err != nil || !slices.Equal(ids, own[user]) {
				t.Errorf("user %d has %v, %v; want %v", user, ids, err, own[user])
			}
		})
		asking.Go(func() {
			for _, id := range own[1+user%users] { // the next user's
				fail.Unless(t, fail.Of(g.Lookup(t.Context(), user, id)), order.ErrNotFound, "user %d asks for another user's order", user)
			}
		})
		asking.Go(func() {
			for _, id := range own[user] {
				if o, err := g.Lookup(t.Context(), user, id); err != nil || o.ID != id || o.UserID != user {
					t.Errorf("user %d: order %d is %+v, %v", user, id, o, err)
				}
			}
		})
		if user%7 == 0 { // callers who leave early
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
				defer cancel()
				fail.Unless(t, fail.Of(g.OrdersOf(ctx, user)), context.DeadlineExceeded, "a caller who leaves")
			})
		}
	}
	asking.Wait()
}

// What a bucket with pending orders does not say is unknown to the users of that bucket who have no order there, and to
// nobody else.
func TestBucketThatSaysTooLittle(t *testing.T) {
	t.Parallel()
	const buckets = 3
	buyers := make([]int64, buckets) // one of each bucket
	others := make([]int64, buckets)
	for n := range buckets {
		of := usersOf(2, buckets, func(b int) bool { return b == n })
		buyers[n], others[n] = of[0], of[1]
	}
	const damaged = 1
	for name, tc := range map[string]struct {
		damage func(s *fixture, of ledger.Keys)
		list   func(v *contract.AdmissionVoucher) bool // changes what is listed later; false drops it
		buyer  error                                   // of the damaged bucket
		other  error                                   // of the damaged bucket, without an order
	}{
		"intact": {damage: func(*fixture, ledger.Keys) {}, other: order.ErrNotFound},
		"odd epoch": {
			damage: func(s *fixture, of ledger.Keys) { s.client.HSet(s.t.Context(), of.Meta, ledger.FieldEpoch, 3) },
			other:  order.ErrUnavailable,
		},
		"no epoch": {
			damage: func(s *fixture, of ledger.Keys) { s.client.Del(s.t.Context(), of.Meta) },
			other:  order.ErrUnavailable,
		},
		"an epoch that is no number": {
			damage: func(s *fixture, of ledger.Keys) { s.client.HSet(s.t.Context(), of.Meta, ledger.FieldEpoch, "x") },
			other:  order.ErrUnavailable,
		},
		"an epoch that the database has left behind": {
			damage: func(s *fixture, of ledger.Keys) { s.client.HSet(s.t.Context(), of.Meta, ledger.FieldEpoch, 2) },
			other:  order.ErrUnavailable,
		},
		"the users are of another type": {
			damage: func(s *fixture, of ledger.Keys) { s.client.Set(s.t.Context(), of.Users, "x", 0) },
			buyer:  order.ErrUnavailable, other: order.ErrUnavailable,
		},
		"one user's order is no number": {
			damage: func(s *fixture, of ledger.Keys) { s.client.HSet(s.t.Context(), of.Users, buyers[damaged], "x") },
			buyer:  order.ErrUnavailable, other: order.ErrNotFound,
		},
		"all were lost, and some are pending again": {
			damage: func(s *fixture, of ledger.Keys) { s.client.Del(s.t.Context(), of.Users, of.Meta) },
			buyer:  order.ErrUnavailable, other: order.ErrUnavailable,
		},
		"forgotten meanwhile": {
			damage: func(s *fixture, of ledger.Keys) { s.client.Del(s.t.Context(), of.Users, of.Meta) },
			list:   func(*contract.AdmissionVoucher) bool { return false },
			buyer:  order.ErrNotFound, other: order.ErrNotFound,
		},
		"opened under the next epoch meanwhile": {
			damage: func(s *fixture, _ ledger.Keys) {
				for n := range buckets {
					s.client.HSet(s.t.Context(), s.bucketOf(8000, n).Meta, ledger.FieldEpoch, 6)
				}
			},
			list: func(v *contract.AdmissionVoucher) bool {
				v.Epoch = 6
				return true
			},
			other: order.ErrNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, testkit.AnyRedis(t), 10)
			v := otherVoucher{id: 8000, buckets: buckets, epoch: 4, orders: make(map[int64]int64)}
			for _, user := range buyers {
				v.orders[user] = 1000 + user
			}
			s.add(v)
			tc.damage(s, s.bucketOf(v.id, damaged))
			gate := func() *Gate {
				return s.gate(func(c *Config) { c.Store = &changingList{store: s.store, change: tc.list} })
			}
			for n := range buckets {
				buyer, other := error(nil), order.ErrNotFound
				if n == damaged {
					buyer, other = tc.buyer, tc.other
				}
				fail.Unless(t, fail.Of(gate().Lookup(t.Context(), buyers[n], 1000+buyers[n])), buyer, "bucket %d, its buyer", n)
				// What is known of a bucket's user does not depend on what is unknown of others.
				if all, err := gate().OrdersOf(t.Context(), buyers[n]); buyer == nil && (err != nil || len(all) != 1) {
					t.Errorf("bucket %d, its buyer's list: %v, %v", n, all, err)
				}
				fail.Unless(t, fail.Of(gate().Lookup(t.Context(), others[n], 77)), other, "bucket %d, another user", n)
				all, err := gate().OrdersOf(t.Context(), others[n])
				if unknown := errors.Is(other, order.ErrUnavailable); unknown != errors.Is(err, order.ErrUnavailable) || len(all) != 0 {
					t.Errorf("bucket %d, another user's list: %v, %v; want %v", n, all, err, other)
				}
			}
			taken := scanFor(append(slices.Clone(buyers), others...)...)
			gate().lookups.takeScan(t.Context(), taken)
			for a, err := range taken.answers(t.Context()) {
				for n, user := range others {
					unknown := n == damaged && errors.Is(tc.other, order.ErrUnavailable)
					if missing := a.missing(user); err != nil || unknown != (missing != nil) {
						t.Errorf("bucket %d, in a scan for all: %v, %v; unknown: %v", n, err, missing, unknown)
					}
				}
			}
		})
	}
}

// The database has lost a voucher whose orders the workers still wait to write. Its buyers find them.
func TestLookupWhileTheVoucherIsMissing(t *testing.T) {
	t.Parallel()
	s := newFixture(t, testkit.AnyRedis(t), 10)
	v := otherVoucher{id: 8000, buckets: 3, epoch: 4, orders: map[int64]int64{1: 1001, 2: 1002, 3: 1003}}
	s.add(v)
	s.store.others = nil
	g := s.gate(func(c *Config) {
		c.Workers = workers{complete: true, watched: []contract.AdmissionVoucher{{VoucherID: v.id, Buckets: v.buckets}}}
	})
	for user, id := range v.orders {
		if o, err := g.Lookup(t.Context(), user, id); err != nil || o.VoucherID != v.id || o.Status != order.Pending {
			t.Errorf("user %d: %+v, %v", user, o, err)
		}
		if all, err := g.OrdersOf(t.Context(), user); err != nil || len(all) != 1 {
			t.Errorf("user %d: %+v, %v", user, all, err)
		}
	}
	fail.Unless(t, fail.Of(g.Lookup(t.Context(), 4, 1004)), order.ErrNotFound, "a user without an order")
}

// changingList is a database in which the other vouchers change once the list was read.
type changingList struct {
	*store
	change func(*contract.AdmissionVoucher) bool // may be nil
	read   atomic.Int64
}

func (c *changingList) AdmissionVouchers(ctx context.Context, endsAfter time.Time) (all []contract.AdmissionVoucher, err error) {
	listed, err := c.store.AdmissionVouchers(ctx, endsAfter)
	first := c.read.Add(1) == 1
	for _, v := range listed {
		if c.change == nil || first || c.change(&v) {
			all = append(all, v)
		}
	}
	return all, err
}

// The time in which users are asked for is time in which Redis is busy: the next scan pauses for it too.
func TestAskingForUsersIsBusy(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *fixture, server *simulate.Redis) {
		const delay = 30 * time.Millisecond
		s.add(otherVoucher{id: 8000, buckets: 1, epoch: 2, orders: map[int64]int64{1: 11}})
		g := s.gateWith(&pipelines{before: func(_ context.Context, commands []redis.Cmder) error {
			if asksForUsers(commands) {
				simulate.Sleep(delay) // a slow server
			}
			return nil
		}})
		taken := scanFor(1)
		fail.Unequal(t, g.lookups.takeScan(t.Context(), taken), delay, "busy for")
	})
}
