package fulfil

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// countCommands counts the commands that a client sends.
type countCommands struct{ n atomic.Int64 }

func (c *countCommands) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *countCommands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.n.Add(1); return next(ctx, cmd) }
}

func (c *countCommands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.n.Add(int64(len(cmds))); return next(ctx, cmds) }
}

// idleEnv starts a process with the defaults, which sells many vouchers that nobody buys. Two of them are in Redis.
func idleEnv(t *testing.T, s *env, vouchers int) (f *Fulfiller, count *countCommands) {
	count = &countCommands{}
	s.client.AddHook(count)
	all := make([]contract.AdmissionVoucher, vouchers)
	for i := range all {
		all[i] = contract.AdmissionVoucher{VoucherID: int64(i + 1), Buckets: 1}
	}
	f, _ = s.run(func(c *Config) {
		*c = Config{Client: c.Client, Store: &listingStore{AdmissionStore: c.Store, now: all}, Orders: c.Orders, Log: c.Log, Prefix: c.Prefix, Name: "me"}
	})
	simulate.Sleep(10 * time.Second)
	return f, count
}

// What vouchers cost that nobody buys is bounded, and does not grow with their number. 13,600 commands a second were
// sent for 2,000 vouchers when each of them was read.
func TestIdleVouchersCostNoMore(t *testing.T) {
	t.Parallel()
	for _, vouchers := range []int{2, 1000, 10_000} {
		t.Run(fmt.Sprint(vouchers), func(t *testing.T) {
			inBubble(t, sale{vouchers: 2}, func(t *testing.T, s *env) {
				_, count := idleEnv(t, s, vouchers)
				before := count.n.Load()
				const long = 30
				simulate.Sleep(long * time.Second)
				if perSecond, most := (count.n.Load()-before)/long, int64(min(vouchers, restingLooks)+30); perSecond > most {
					t.Errorf("%d commands/s for %d vouchers, want at most %d", perSecond, vouchers, most)
				}
			})
		})
	}
}

// An order of a voucher that nobody bought before is written as soon as one of a voucher that sells. One that another
// process accepted, and did not write, is found when its stream has its turn.
func TestIdleVoucherSells(t *testing.T) {
	inBubble(t, sale{vouchers: 2}, func(t *testing.T, s *env) {
		const vouchers = 5000
		f, count := idleEnv(t, s, vouchers)
		for _, id := range []int64{1, 2, 1} {
			began := time.Now()
			f.Wake(id, 0)
			s.accept(id, 3)
			s.waitUntilEmpty()
			if took := time.Since(began); took > longestBlock+10*time.Millisecond {
				t.Errorf("an order of a voucher that was idle took %v", took)
			}
			simulate.Sleep(10 * time.Second)
		}
		began := time.Now()
		s.accept(2, 3)
		s.waitUntilEmpty()
		if took := time.Since(began); took > (vouchers/restingLooks+1)*time.Second {
			t.Errorf("an order that another process accepted took %v", took)
		}
		simulate.Sleep(10 * time.Second)
		fail.Unequal(t, len(f.streams.watched()), 0, "streams are watched, and all are empty")
		before := count.n.Load()
		simulate.Sleep(10 * time.Second)
		if perSecond := (count.n.Load() - before) / 10; perSecond > restingLooks+10 {
			t.Errorf("%d commands/s after the sales", perSecond)
		}
		s.wantFinalState(0)
	})
}
