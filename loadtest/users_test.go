package loadtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
)

// The cost of a decision is measured over this many orders, in batches as large as in a rush.
const (
	decided      = 1_000
	decidedBatch = 50
)

// users compares the cost of an order in Redis with few and with many users who have ordered. It calls the
// script directly: a rush over HTTP would not keep their number low.
func (s *benchService) users(b *testing.B) row {
	script := admitScript(b)
	few, many := newCrowd(s, 1_000), newCrowd(s, 1_000_000)
	many.gather(b)
	var r ratios
	for range 10 * rounds {
		few.gather(b)
		r.add(many.order(b, script), few.order(b, script))
	}
	for _, c := range []*userSet{few, many} {
		c.leave(b)
	}
	return row{
		what: "cost of an order at 1,000,000 users over that at 1,000", want: "flat", met: median(r.each) < 1.25,
		got: fmt.Sprintf("%.2f: %.2f µs and %.2f µs", median(r.each), median(r.mine), median(r.theirs)),
		note: fmt.Sprintf("Time in EVALSHA by INFO commandstats, in batches of %d; medians of %d times %d orders, least %.2f µs and %.2f µs.",
			decidedBatch, len(r.each), decided, slices.Min(r.mine), slices.Min(r.theirs)),
	}
}

// calls measures the cost of an order in Redis by the number of orders per call: the script, and the work around it.
func (s *benchService) calls(b *testing.B) row {
	const orders = 40 * 512
	script, userSet := admitScript(b), newCrowd(s, 1_000)
	var costs []string
	for _, batch := range []int{1, 8, 64, 512} {
		userSet.gather(b)
		before := s.busy(b).redis
		for range orders / batch {
			userSet.call(b, script, batch)
		}
		costs = append(costs, fmt.Sprintf("%d: %.1f µs", batch, (s.busy(b).redis-before)/orders*1e6))
	}
	userSet.leave(b)
	return row{
		what: "Redis for an order, by orders in a call", got: strings.Join(costs, ", "),
		note: fmt.Sprintf("CPU by INFO cpu, over %d orders each.", orders),
	}
}

func admitScript(b *testing.B) *redis.Script {
	b.Helper()
	source, err := os.ReadFile("../internal/admission/ledger/admit.lua")
	if err != nil {
		b.Fatal(err)
	}
	return redis.NewScript(string(source))
}

// userSet is the users of a voucher that only this measurement has.
type userSet struct {
	*benchService
	keys ledger.Keys
	size int
	next int64
}

func newCrowd(s *benchService, size int) *userSet {
	return &userSet{benchService: s, keys: ledger.KeysOf("bench:", int64(size), 0), size: size, next: 1 << 40}
}

// gather creates the voucher again, with the users that have ordered.
func (c *userSet) gather(b *testing.B) {
	b.Helper()
	c.leave(b)
	pipe := c.redis.Pipeline()
	pipe.HSet(b.Context(), c.keys.Meta, ledger.FieldEpoch, 2, ledger.FieldSeq, c.size, ledger.FieldStock, plenty, ledger.FieldReturned, 0,
		ledger.FieldBegin, 0, ledger.FieldEnd, int64(1)<<50)
	for n := range c.size {
		pipe.HSet(b.Context(), c.keys.Users, n+1, orderID(int64(n+1)))
		if pipe.Len() == 1000 || n == c.size-1 {
			if _, err := pipe.Exec(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func (c *userSet) leave(b *testing.B) {
	b.Helper()
	if err := c.redis.Del(b.Context(), c.keys.Meta, c.keys.Users, c.keys.Orders).Err(); err != nil {
		b.Fatal(err)
	}
}

// orderID has the length of a real order id.
func orderID(user int64) int64 { return 1<<59 + user }

// order places the orders of new users and returns the time in the script per order, in µs.
func (c *userSet) order(b *testing.B, script *redis.Script) float64 {
	b.Helper()
	if err := script.Load(b.Context(), c.redis).Err(); err != nil {
		b.Fatal(err)
	}
	if err := c.redis.ConfigResetStat(b.Context()).Err(); err != nil {
		b.Fatal(err)
	}
	for range decided / decidedBatch {
		c.call(b, script, decidedBatch)
	}
	return c.info(b, "commandstats", `(?m)^cmdstat_evalsha:calls=\d+,usec=(\d+)`) / decided
}

// call places the orders of n new users in one call.
func (c *userSet) call(b *testing.B, script *redis.Script, batch int) {
	b.Helper()
	args := []any{2, 0, 0, "", "", int64(1) << 40, int64(1) << 50, ""}
	for range batch {
		c.next++
		args = append(args, c.next, orderID(c.next))
	}
	reply, err := script.Run(b.Context(), c.redis, []string{c.keys.Meta, c.keys.Users, c.keys.Orders}, args...).Slice()
	if err != nil || len(reply) != 6 || reply[5] != strings.Repeat("a", batch) {
		b.Fatalf("orders were answered with %v, %v", reply, err)
	}
}
