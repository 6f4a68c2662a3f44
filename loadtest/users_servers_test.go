package loadtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit/fail"
)

// The cost of a decision is measured over this many orders, in batches as large as in a rush.
const (
	decided      = 1_000
	decidedBatch = 50
)

// users compares the cost of an order in Redis with few and with many users who have ordered. It calls the script
// directly: a rush over HTTP would not keep their number low.
func (s *benchService) users(b *testing.B) row {
	script := admitScript(b)
	few, many := newCrowd(s, 1_000), newCrowd(s, 1_000_000)
	many.gather(b)
	var r, spent ratios
	for range 10 * rounds() {
		few.gather(b)
		mine, theirs := many.order(b, script), few.order(b, script)
		r.add(mine.script, theirs.script)
		spent.add(mine.cpu, theirs.cpu)
	}
	for _, c := range []*userSet{few, many} {
		c.leave(b)
	}
	const most = 1.10
	return row{
		what: "cost of an order at 1,000,000 users over that at 1,000", want: fmt.Sprintf("≤ %.2f", most),
		evidence: evidence{met: median(spent.each) <= most, steady: true},
		got: fmt.Sprintf("%.2f: %.2f µs and %.2f µs of CPU; in the script %.2f: %.2f µs and %.2f µs", median(spent.each), median(spent.mine), median(spent.theirs),
			median(r.each), median(r.mine), median(r.theirs)),
		note: fmt.Sprintf("INFO cpu, and time in EVALSHA by INFO commandstats, in batches of %d; medians of %d times %d orders, least in the script %.2f µs and %.2f µs.",
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
		before := s.redisBusy(b)
		for range orders / batch {
			userSet.call(b, script, batch)
		}
		costs = append(costs, fmt.Sprintf("%d: %.1f µs", batch, (s.redisBusy(b)-before)/orders*1e6))
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
	fail.NowIf(b, err)
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
			fail.NowIf(b, fail.Of(pipe.Exec(b.Context())))
		}
	}
}

func (c *userSet) leave(b *testing.B) {
	b.Helper()
	fail.NowIf(b, c.redis.Del(b.Context(), c.keys.Meta, c.keys.Users, c.keys.Orders).Err())
}

// orderID has the length of a real order id.
func orderID(user int64) int64 { return 1<<59 + user }

// orderCost is the time in the script and the processor time per order, in µs.
type orderCost struct{ script, cpu float64 }

// order places the orders of new users.
func (c *userSet) order(b *testing.B, script *redis.Script) orderCost {
	b.Helper()
	fail.NowIf(b, script.Load(b.Context(), c.redis).Err())
	fail.NowIf(b, c.redis.ConfigResetStat(b.Context()).Err())
	before := c.redisBusy(b)
	for range decided / decidedBatch {
		c.call(b, script, decidedBatch)
	}
	spent := c.redisBusy(b) - before
	return orderCost{
		script: c.info(b, "commandstats", `(?m)^cmdstat_evalsha:calls=\d+,usec=(\d+)`) / decided,
		cpu:    spent / decided * 1e6,
	}
}

// call places the orders of n new users in one call.
func (c *userSet) call(b *testing.B, script *redis.Script, batch int) {
	b.Helper()
	args := []any{2, 0, 0, "", "", int64(1) << 40, int64(1) << 50, "", ledger.DefaultOrdersPerEntry}
	for range batch {
		c.next++
		args = append(args, c.next, orderID(c.next))
	}
	reply, err := script.Run(b.Context(), c.redis, []string{c.keys.Meta, c.keys.Users, c.keys.Orders}, args...).Slice()
	if err != nil || len(reply) != 7 || reply[5] != strings.Repeat("a", batch) {
		b.Fatalf("orders were answered with %v, %v", reply, err)
	}
}
