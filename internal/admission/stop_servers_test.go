package admission

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// What a Redis server refuses in the middle of a sale costs no order: a command that is forbidden for a moment, a key
// of another type in the place of the stream, a stream that has used up its ids.
func TestRefusedInTheMiddleOfASale(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	admin := superuser(t, server)
	type fault struct{ begin, end func(*fixture) error }
	forbid := func(command string) fault {
		return fault{
			func(s *fixture) error { return admin.Do(s.t.Context(), "ACL", "SETUSER", "default", "-"+command).Err() },
			func(s *fixture) error { return admin.Do(s.t.Context(), "ACL", "SETUSER", "default", "+"+command).Err() },
		}
	}
	for name, f := range map[string]fault{
		"xadd": forbid("xadd"), // TestScriptStopsAtAnyCommand has all commands of all scripts
		"a wrong type": {
			func(s *fixture) error {
				_, err := admin.TxPipelined(s.t.Context(), func(both redis.Pipeliner) error {
					both.Rename(s.t.Context(), s.keys.Orders, s.keys.Orders+":away")
					both.Set(s.t.Context(), s.keys.Orders, "x", 0)
					return nil
				})
				return err
			},
			func(s *fixture) error { return admin.Rename(s.t.Context(), s.keys.Orders+":away", s.keys.Orders).Err() },
		},
		"the greatest id": {
			func(s *fixture) error {
				const greatest = "18446744073709551615"
				return admin.Do(s.t.Context(), "XSETID", s.keys.Orders, greatest+"-"+greatest).Err()
			},
			func(s *fixture) error {
				newest, err := admin.XRevRangeN(s.t.Context(), s.keys.Orders, "+", "-", 1).Result()
				id := "1-1"
				for _, m := range newest {
					id = m.ID
				}
				return errors.Join(err, admin.Do(s.t.Context(), "XSETID", s.keys.Orders, id).Err())
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, at(server.Addr()), 150)
			s.store.refused = map[int64]bool{10: true, 70: true, 130: true}
			answers := s.sellDuring(func(sale *progress) {
				testkit.Until(t, "20 are sold", func() bool { return sale.sold.Load() >= 20 })
				fail.NowIf(t, f.begin(s))
				refusals := func() int {
					n, err := strconv.Atoi(admin.InfoMap(t.Context(), "stats").Item("Stats", "total_error_replies"))
					fail.NowIf(t, err)
					return n
				}
				before := refusals()
				testkit.Until(t, "the server refuses several commands, or the sale needs none of them", func() bool {
					return refusals() >= before+5 || sale.answered.Load() == usersOfSale
				})
				fail.NowIf(t, f.end(s))
			})
			g := s.gate(nil)
			fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
			s.takeAll()
			s.balanced(g, int64(len(s.store.orders)))
			s.kept(answers, func(user int64) int64 { return 10 * user })
		})
	}
}

// The service needs no more than the user of the docs has.
func TestACLOfTheDocsSells(t *testing.T) {
	t.Parallel()
	server := testkit.NewRedis(t)
	s := newFixture(t, &redis.Options{Addr: server.Addr(), Username: "seckill", Password: "PASSWORD"}, 50)
	args := []any{"ACL", "SETUSER", "seckill"}
	for _, word := range userOfTheDocs(t) {
		args = append(args, strings.ReplaceAll(word, "seckill:", s.prefix))
	}
	fail.NowIf(t, superuser(t, server).Do(t.Context(), args...).Err())
	s.store.refused = map[int64]bool{10: true}
	fail.NowIf(t, s.gate(nil).Try(t.Context()))
	answers := s.sellDuring(func(*progress) {})
	g := s.gate(nil)
	fail.NowIf(t, g.Open(t.Context(), &s.store.voucher))
	s.balanced(g, int64(len(s.store.orders)))
	s.kept(answers, func(user int64) int64 { return 10 * user })
	fail.NowIf(t, superuser(t, server).Do(t.Context(), "ACL", "SETUSER", "seckill", "-xadd").Err())
	if err := g.Try(t.Context()); !errors.Is(err, ledger.ErrForbidden) || !strings.Contains(err.Error(), "XADD") {
		t.Errorf("XADD is forbidden: %v", err)
	}
}

// superuser returns a client that stays permitted everything.
func superuser(t *testing.T, server *testkit.RedisServer) *redis.Client {
	t.Helper()
	fail.NowIf(t, server.Client(t).Do(t.Context(), "ACL", "SETUSER", "admin", "on", "nopass", "~*", "&*", "+@all").Err())
	return dial(t, &redis.Options{Addr: server.Addr(), Username: "admin", Password: "any"})
}

// progress counts the users of sellDuring whose order was accepted, and those who were told their final answer.
type progress struct{ sold, answered atomic.Int64 }

const usersOfSale = 200

// sellDuring has 200 users order from one process while something happens, and returns what each was told. Workers take
// the entries.
func (s *fixture) sellDuring(happens func(sale *progress)) map[int64]error {
	g, finish := s.gate(nil), s.run()
	var mu sync.Mutex
	var buying sync.WaitGroup
	var sale progress
	answers := make(map[int64]error)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for first := range int64(10) {
		buying.Go(func() {
			for user := first + 1; user <= usersOfSale; user += 10 {
				err := s.buy(g, user, 10*user)
				for errors.Is(err, order.ErrUnavailable) && sleep(ctx, 10*time.Millisecond) {
					err = s.buy(g, user, 10*user)
				}
				if err == nil {
					sale.sold.Add(1)
				}
				mu.Lock()
				answers[user] = err
				mu.Unlock()
				sale.answered.Add(1)
			}
		})
	}
	happens(&sale)
	buying.Wait()
	finish()
	return answers
}
