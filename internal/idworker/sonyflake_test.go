package idworker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/sonyflake"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// leases is the registry in a Redis in this process, and what disturbs it.
type leases struct {
	*redisRegistry
	server *simulate.Redis
}

// newLeases must be called in the bubble.
func newLeases(t *testing.T, cfg Config) *leases {
	server := simulate.NewRedis(t)
	cfg.start = bubbleStart
	return &leases{newRedisRegistry(server.Client(t), cfg.withDefaults()), server}
}

// bubbleStart is tick 0: a bubble's clock starts in 2000.
func bubbleStart() time.Time { return time.Date(1999, time.January, 1, 0, 0, 0, 0, time.UTC) }

// remove deletes a lease without its holder's knowledge, but not the mark.
func (l *leases) remove(machine uint16) { l.server.Mini().Del(l.leaseKey(machine)) }

// takeOver gives a lease to another holder.
func (l *leases) takeOver(machine uint16) {
	_ = l.server.Mini().Set(l.leaseKey(machine), "other") // it fails only if the key is of another kind
	l.server.Mini().SetTTL(l.leaseKey(machine), l.cfg.TTL)
}

func (l *leases) held() (n int) {
	for _, key := range l.server.Mini().Keys() {
		if strings.Contains(key, ":lease:") {
			n++
		}
	}
	return n
}

// testSonyflake is a Sonyflake in a synctest bubble.
type testSonyflake struct {
	*Sonyflake
	t        *testing.T
	registry *leases
	ahead    *atomic.Int64 // by how much this process's clock is ahead, in ns
	seen     map[int64]bool
}

// inBubble runs fn in a synctest bubble.
func inBubble(t *testing.T, cfg Config, fn func(t *testing.T, b *testSonyflake)) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestSonyflake(t, newLeases(t, cfg), cfg)
		defer b.close()
		synctest.Wait() // the other machine ids are leased in the background
		fn(t, b)
	})
}

func newTestSonyflake(t *testing.T, registry *leases, cfg Config) *testSonyflake {
	b := &testSonyflake{t: t, registry: registry, ahead: new(atomic.Int64), seen: map[int64]bool{}}
	cfg.start = clockAhead(b.ahead)
	cfg = cfg.withDefaults()
	s, err := newSonyflake(t.Context(), newRedisRegistry(registry.client, cfg), cfg)
	fail.NowIf(t, err)
	b.Sonyflake = s
	return b
}

// clockAhead returns tick 0 for a process whose clock is ahead.
func clockAhead(ahead *atomic.Int64) func() time.Time {
	return func() time.Time { return bubbleStart().Add(-time.Duration(ahead.Load())) }
}

// step moves this process's clock.
func (b *testSonyflake) step(d time.Duration) { b.ahead.Add(int64(d)) }

func (b *testSonyflake) close() {
	fail.If(b.t, b.Close(context.Background()), "close")
}

// mint mints one id and checks that it is new.
func (b *testSonyflake) mint() uint64 {
	b.t.Helper()
	id, err := b.NextID(b.t.Context())
	fail.NowIf(b.t, err, "NextID")
	if id <= 0 || b.seen[id] {
		b.t.Fatalf("NextID = %d, seen before: %v", id, b.seen[id])
	}
	b.seen[id] = true
	return uint64(id)
}

func (b *testSonyflake) wantNoLease() {
	b.t.Helper()
	id, err := b.NextID(b.t.Context())
	if !errors.Is(err, ErrNoLease) || !errors.Is(err, order.ErrUnavailable) {
		b.t.Fatalf("NextID = %d, %v; want ErrNoLease that is also order.ErrUnavailable", id, err)
	}
}

// wantNotReady is wantNoLease in a lasting state, which Ready reports too.
func (b *testSonyflake) wantNotReady() {
	b.t.Helper()
	b.wantNoLease()
	if err := b.Ready(b.t.Context()); !errors.Is(err, ErrNoLease) {
		b.t.Fatalf("Ready = %v; want ErrNoLease", err)
	}
}

func (b *testSonyflake) wantReady() {
	b.t.Helper()
	b.mint()
	if err := b.Ready(b.t.Context()); err != nil {
		b.t.Fatalf("Ready = %v", err)
	}
}

func TestRate(t *testing.T) {
	for _, machines := range []int{1, 2, 3} {
		inBubble(t, Config{Machines: machines}, func(t *testing.T, b *testSonyflake) {
			begin := time.Now()
			perMachine := map[uint64]int{}
			for range machines * 256 {
				perMachine[sonyflake.MachineID(b.mint())]++
			}
			fail.Unequal(t, time.Since(begin), 0, "%d machine ids: the ids of one tick took", machines)
			fail.Unequal(t, len(perMachine), machines, "machine ids were used: %v", perMachine)
			b.mint()
			fail.Unequal(t, time.Since(begin), unit, "%d machine ids: the next id took", machines)
		})
	}
}

func TestWaitEndsWithTheContext(t *testing.T) {
	inBubble(t, Config{Machines: 1}, func(t *testing.T, b *testSonyflake) {
		for range 256 {
			b.mint()
		}
		ctx, cancel := context.WithTimeout(t.Context(), unit/2)
		defer cancel()
		begin := time.Now()
		if id, err := b.NextID(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("NextID = %d, %v; want the context's error", id, err)
		}
		fail.Unequal(t, time.Since(begin), unit/2, "NextID took")
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		fail.Unless(t, fail.Of(b.NextID(cancelled)), context.Canceled, "NextID with a context that has stopped")
	})
}

func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, Config{TTL: 9 * time.Second}, func(t *testing.T, b *testSonyflake) {
		var renewals atomic.Int64
		b.registry.server.Refuse(func(command string, _ ...string) string {
			if command == "PEXPIRE" {
				renewals.Add(1)
			}
			return ""
		})
		for range 100 {
			simulate.Sleep(time.Second)
			b.wantReady()
		}
		fail.Unequal(t, renewals.Load(), 66, "renewals in 100 s of two machine ids every 3 s")
	})
}

func TestUnreachable(t *testing.T) {
	cfg := Config{Machines: 1, TTL: 10 * time.Second, Renewal: 4 * time.Second, Retry: time.Second}
	inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
		simulate.Sleep(5 * time.Second) // renewed at 4 s: minting may go on until 13 s
		b.registry.server.Stop()
		simulate.Sleep(8*time.Second - time.Millisecond)
		b.wantReady()
		simulate.Sleep(time.Millisecond)
		b.wantNotReady()
		b.registry.server.Start()
		simulate.Sleep(cfg.Retry)
		synctest.Wait()
		b.wantReady() // with another machine id: the former lease lasts for another second
	})
	t.Run("briefly", func(t *testing.T) {
		inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
			b.registry.server.Stop()
			simulate.Sleep(8*time.Second - time.Millisecond)
			b.registry.server.Start()
			for range 20 {
				simulate.Sleep(time.Second)
				b.wantReady()
			}
		})
	})
}

func TestLeaseLost(t *testing.T) {
	for name, take := range map[string]func(*leases, uint16){
		"deleted":    (*leases).remove,
		"taken over": (*leases).takeOver,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 9}
			inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
				before := b.mint()
				take(b.registry, uint16(sonyflake.MachineID(before)))
				other := newTestSonyflake(t, b.registry, cfg)
				defer other.close()
				if id := other.mint(); sonyflake.MachineID(id) == sonyflake.MachineID(before) {
					t.Fatal("a machine id that may still be minting was leased again")
				}
				simulate.Sleep(b.registry.cfg.Renewal)
				synctest.Wait()
				if after := b.mint(); sonyflake.MachineID(after) == sonyflake.MachineID(before) {
					t.Error("still minting with the lost machine id")
				}
			})
		})
	}
}

func TestClockStepsBack(t *testing.T) {
	t.Run("small step is waited out", func(t *testing.T) {
		inBubble(t, Config{Machines: 1}, func(t *testing.T, b *testSonyflake) {
			machine := sonyflake.MachineID(b.mint())
			b.step(-50 * time.Millisecond)
			begin := time.Now()
			for range 2000 {
				if sonyflake.MachineID(b.mint()) != machine {
					t.Fatal("another machine id was used")
				}
			}
			// The rest of the tick, 50 ms until the clock has caught up, and 6 more ticks.
			if took := time.Since(begin); took > 200*time.Millisecond {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("large step leads to another machine id", func(t *testing.T) {
		inBubble(t, Config{}, func(t *testing.T, b *testSonyflake) {
			used := map[uint64]bool{}
			for range 1000 {
				used[sonyflake.MachineID(b.mint())] = true
			}
			b.step(-time.Hour)
			b.wantNoLease()
			synctest.Wait()
			for range 1000 {
				if id := b.mint(); used[sonyflake.MachineID(id)] {
					t.Fatal("minted with a machine id from before the step")
				}
			}
		})
	})
	t.Run("step between two processes: the next holder waits for the mark", func(t *testing.T) {
		cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 7}
		inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
			last := b.mint()
			b.step(time.Minute)
			b.close()
			behind := newTestSonyflake(t, b.registry, cfg) // its clock is a minute behind the former
			defer behind.close()
			if id := behind.mint(); id <= last {
				t.Errorf("%d after %d", id, last)
			}
		})
	})
}

func TestClockJumpsAhead(t *testing.T) {
	inBubble(t, Config{Machines: 1}, func(t *testing.T, b *testSonyflake) {
		machine := sonyflake.MachineID(b.mint())
		b.step(time.Hour)
		b.wantNoLease() // beyond the mark until a renewal has moved it
		synctest.Wait()
		if sonyflake.MachineID(b.mint()) != machine {
			t.Error("another machine id was leased although a renewal was enough")
		}
	})
}

func TestClose(t *testing.T) {
	inBubble(t, Config{Machines: 3}, func(t *testing.T, b *testSonyflake) {
		if n := b.registry.held(); n != 3 {
			t.Fatalf("%d machine ids are leased", n)
		}
		b.registry.server.Stop()
		if b.Close(t.Context()) == nil {
			t.Error("closed while Redis is down, and no error")
		}
		b.wantNotReady()
		b.registry.server.Start()
		b.close()
		fail.Unequal(t, b.registry.held(), 0, "machine ids are still leased")
		b.wantNotReady()
	})
}

func TestNewSonyflakeWaitsForAFreeMachine(t *testing.T) {
	cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 7}
	inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute+time.Millisecond) // not in the middle of a try
		defer cancel()
		second := cfg.withDefaults()
		second.start = bubbleStart
		if _, err := newSonyflake(ctx, b.registry, second); !errors.Is(err, ErrNoLease) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the machine id is held: %v", err)
		}
		b.registry.server.Stop()
		fail.Unless(t, fail.Of(newSonyflake(t.Context(), b.registry, second)), ErrNoLease, "while Redis is down")
		b.registry.server.Start()
	})
}

func TestNextRefusesAnIDThatIsNotAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ticks{start: bubbleStart}
		g := newGenerator(grant{machine: 7}, c, reserve(c, time.Second))
		if _, _, err := g.mint(); err != nil {
			t.Fatal(err)
		}
		last := g.last
		g.last += 2 // as if the clock stepped back right after it was read
		id, wait, err := g.next(time.Now())
		if id != 0 || wait != 3*unit || err != nil {
			t.Errorf("next = %d, %v, %v; want to wait for tick %d", id, wait, err, last+3)
		}
	})
}

// With a GracePeriod, a Redis that lost its data leases nothing until all former holders have stopped.
func TestGracePeriod(t *testing.T) {
	cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 8, TTL: 2 * time.Second, GracePeriod: 2 * time.Second}
	inBubble(t, cfg, func(t *testing.T, former *testSonyflake) {
		former.mint()
		held := former.slots[0].generator.Load()
		lost := time.Now()
		former.registry.server.Mini().FlushAll()
		next := newTestSonyflake(t, former.registry, cfg)
		defer next.close()
		if waited := time.Since(lost); waited < cfg.GracePeriod || waited > cfg.GracePeriod+cfg.withDefaults().Retry {
			t.Errorf("leased %v after the loss; want %v", waited, cfg.GracePeriod)
		}
		if held.ready() == nil {
			t.Error("the machine id leased before the loss is still minting")
		}
		next.mint()
	})
}

func TestManyGoroutines(t *testing.T) {
	inBubble(t, Config{}, func(t *testing.T, b *testSonyflake) {
		other := newTestSonyflake(t, b.registry, Config{})
		defer other.close()
		const goroutines, each = 16, 500
		ids := make([][]int64, goroutines)
		var wg sync.WaitGroup
		for g := range goroutines {
			s := []*testSonyflake{b, other}[g%2]
			wg.Go(func() {
				for range each {
					id, err := s.NextID(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					ids[g] = append(ids[g], id)
				}
			})
		}
		wg.Wait()
		seen := unique{}
		for g := range goroutines {
			seen.add(t, "a goroutine", ids[g]...)
		}
		fail.Unequal(t, len(seen), goroutines*each, "ids")
	})
}

func TestConfig(t *testing.T) {
	valid := map[string]Config{
		"zero":       {},
		"one of one": {Machines: 1, FirstMachine: 3, LastMachine: 3},
		"short":      {TTL: MinTTL},
		"own":        {TTL: time.Minute, Renewal: 50 * time.Second, Retry: 40 * time.Second},
	}
	for name, cfg := range valid {
		fail.If(t, cfg.Validate(), "%s", name)
	}
	invalid := map[string]Config{
		"range":           {FirstMachine: 4, LastMachine: 3},
		"more than range": {Machines: 2, FirstMachine: 3, LastMachine: 3},
		"machines":        {Machines: MaxMachines + 1},
		"negative":        {Machines: -1},
		"ttl too short":   {TTL: MinTTL - 1},
		"ttl too long":    {TTL: MaxTTL + 1},
		"renewal":         {TTL: time.Second, Renewal: 900 * time.Millisecond},
		"retry":           {TTL: 10 * time.Second, Renewal: time.Second, Retry: time.Second},
		"negative retry":  {Retry: -1},
		"mark retention":  {MarkRetention: time.Second},
		"grace period":    {GracePeriod: -1},
	}
	for name, cfg := range invalid {
		fail.Unless(t, cfg.Validate(), ErrInvalid, "%s", name)
		fail.Unless(t, fail.Of(NewSonyflake(t.Context(), nil, cfg)), ErrInvalid, "%s: NewSonyflake", name)
	}
}
