package loadtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
)

// A decision's cost is measured over so many orders, in batches as large as a rush has.
const (
	decided      = 1_000
	decidedBatch = 50
)

// users compares what an order costs Redis where few and where many have ordered. The
// script is called directly, as a rush over HTTP would not leave them few.
func (s *shop) users(b *testing.B) row {
	script := admitScript(b)
	few, many := newCrowd(s, 1_000), newCrowd(s, 1_000_000)
	many.gather(b)
	var r ratios
	for range 10 * rounds {
		few.gather(b)
		r.add(many.order(b, script), few.order(b, script))
	}
	for _, c := range []*crowd{few, many} {
		c.leave(b)
	}
	return row{
		what: "cost of an order at 1,000,000 users over that at 1,000", want: "flat", met: median(r.each) < 1.25,
		got: fmt.Sprintf("%.2f: %.2f µs and %.2f µs", median(r.each), median(r.mine), median(r.theirs)),
		note: fmt.Sprintf("Time in EVALSHA by INFO commandstats, in batches of %d; medians of %d times %d orders, least %.2f µs and %.2f µs.",
			decidedBatch, len(r.each), decided, slices.Min(r.mine), slices.Min(r.theirs)),
	}
}

// calls is what an order costs Redis by how many share a call: the script, and what is
// around it.
func (s *shop) calls(b *testing.B) row {
	const orders = 40 * 512
	script, crowd := admitScript(b), newCrowd(s, 1_000)
	var costs []string
	for _, batch := range []int{1, 8, 64, 512} {
		crowd.gather(b)
		before := s.busy(b).redis
		for range orders / batch {
			crowd.call(b, script, batch)
		}
		costs = append(costs, fmt.Sprintf("%d: %.1f µs", batch, (s.busy(b).redis-before)/orders*1e6))
	}
	crowd.leave(b)
	return row{
		what: "Redis for an order, by orders in a call", got: strings.Join(costs, ", "),
		note: fmt.Sprintf("CPU by INFO cpu, over %d orders each.", orders),
	}
}

func admitScript(b *testing.B) *redis.Script {
	b.Helper()
	source, err := os.ReadFile("../internal/admission/admit.lua")
	if err != nil {
		b.Fatal(err)
	}
	return redis.NewScript(string(source))
}

// crowd are the users of a voucher that only this measurement has.
type crowd struct {
	*shop
	keys admkey.Keys
	size int
	next int64
}

func newCrowd(s *shop, size int) *crowd {
	return &crowd{shop: s, keys: admkey.Of("bench:", int64(size), 0), size: size, next: 1 << 40}
}

// gather makes the voucher anew, with the users that have ordered.
func (c *crowd) gather(b *testing.B) {
	b.Helper()
	c.leave(b)
	pipe := c.redis.Pipeline()
	pipe.HSet(b.Context(), c.keys.Meta, admkey.Epoch, 2, admkey.Seq, c.size, admkey.Stock, plenty, admkey.Back, 0,
		admkey.Begin, 0, admkey.End, int64(1)<<50)
	for n := range c.size {
		pipe.HSet(b.Context(), c.keys.Users, n+1, orderID(int64(n+1)))
		if pipe.Len() == 1000 || n == c.size-1 {
			if _, err := pipe.Exec(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func (c *crowd) leave(b *testing.B) {
	b.Helper()
	if err := c.redis.Del(b.Context(), c.keys.Meta, c.keys.Users, c.keys.Orders).Err(); err != nil {
		b.Fatal(err)
	}
}

// orderID is as long as an order's id is.
func orderID(user int64) int64 { return 1<<59 + user }

// order has new users order and returns how long Redis was in the script for each, in µs.
func (c *crowd) order(b *testing.B, script *redis.Script) float64 {
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

// call has so many new users order in one call.
func (c *crowd) call(b *testing.B, script *redis.Script, batch int) {
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
