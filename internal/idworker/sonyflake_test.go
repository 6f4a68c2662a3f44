package idworker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/sonyflake"

	"seckill/internal/order"
)

// testSonyflake is a Sonyflake with a fakeRegistry, in a synctest bubble.
type testSonyflake struct {
	*Sonyflake
	t        *testing.T
	registry *fakeRegistry
	ahead    *atomic.Int64 // by how much this process's clock is ahead, in ns
	seen     map[int64]bool
}

// inBubble runs fn in a synctest bubble.
func inBubble(t *testing.T, cfg Config, fn func(t *testing.T, b *testSonyflake)) {
	synctest.Test(t, func(t *testing.T) {
		b := newTestSonyflake(t, newFakeRegistry(cfg), cfg)
		defer b.close()
		synctest.Wait() // the other machine ids are leased in the background
		fn(t, b)
	})
}

func newTestSonyflake(t *testing.T, registry *fakeRegistry, cfg Config) *testSonyflake {
	b := &testSonyflake{t: t, registry: registry, ahead: new(atomic.Int64), seen: map[int64]bool{}}
	cfg.start = b.start
	s, err := newSonyflake(t.Context(), registry, cfg.withDefaults())
	if err != nil {
		t.Fatal(err)
	}
	b.Sonyflake = s
	return b
}

// start returns tick 0. It is in 1999 because a bubble's clock starts in 2000.
func (b *testSonyflake) start() time.Time {
	return time.Date(1999, time.January, 1, 0, 0, 0, 0, time.UTC).Add(-time.Duration(b.ahead.Load()))
}

// step moves this process's clock.
func (b *testSonyflake) step(d time.Duration) { b.ahead.Add(int64(d)) }

func (b *testSonyflake) close() {
	if err := b.Close(context.Background()); err != nil {
		b.t.Errorf("close: %v", err)
	}
}

// mint mints one id and checks that it is new.
func (b *testSonyflake) mint() uint64 {
	b.t.Helper()
	id, err := b.NextID(b.t.Context())
	if err != nil {
		b.t.Fatalf("NextID: %v", err)
	}
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
			if took := time.Since(begin); took != 0 {
				t.Errorf("%d machine ids: the ids of one tick took %v", machines, took)
			}
			if len(perMachine) != machines {
				t.Errorf("%d machine ids were used: %v", len(perMachine), perMachine)
			}
			b.mint()
			if took := time.Since(begin); took != unit {
				t.Errorf("%d machine ids: the next id took %v; want %v", machines, took, unit)
			}
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
		if took := time.Since(begin); took != unit/2 {
			t.Errorf("NextID took %v; want %v", took, unit/2)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := b.NextID(cancelled); !errors.Is(err, context.Canceled) {
			t.Errorf("NextID with a context that has stopped: %v", err)
		}
	})
}

func TestLeaseIsRenewed(t *testing.T) {
	inBubble(t, Config{TTL: 9 * time.Second}, func(t *testing.T, b *testSonyflake) {
		for range 100 {
			time.Sleep(time.Second)
			b.wantReady()
		}
		if n := b.registry.renewals(); n < 60 || n > 70 {
			t.Errorf("%d renewals in 100 s of two machine ids every 3 s", n)
		}
	})
}

func TestUnreachable(t *testing.T) {
	cfg := Config{Machines: 1, TTL: 10 * time.Second, Renewal: 4 * time.Second, Retry: time.Second}
	inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
		time.Sleep(5 * time.Second) // renewed at 4 s: minting may go on until 13 s
		b.registry.setDown(true)
		time.Sleep(8*time.Second - time.Millisecond)
		b.wantReady()
		time.Sleep(time.Millisecond)
		b.wantNotReady()
		b.registry.setDown(false)
		time.Sleep(cfg.Retry)
		synctest.Wait()
		b.wantReady() // with another machine id: the former lease lasts for another second
	})
	t.Run("briefly", func(t *testing.T) {
		inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
			b.registry.setDown(true)
			time.Sleep(8*time.Second - time.Millisecond)
			b.registry.setDown(false)
			for range 20 {
				time.Sleep(time.Second)
				b.wantReady()
			}
		})
	})
}

func TestLeaseLost(t *testing.T) {
	for name, take := range map[string]func(*fakeRegistry, uint16){
		"deleted":    (*fakeRegistry).remove,
		"taken over": (*fakeRegistry).takeOver,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, Config{Machines: 1}, func(t *testing.T, b *testSonyflake) {
				before := b.mint()
				take(b.registry, uint16(sonyflake.MachineID(before)))
				other := newTestSonyflake(t, b.registry, Config{Machines: 1})
				defer other.close()
				if id := other.mint(); sonyflake.MachineID(id) == sonyflake.MachineID(before) {
					t.Fatal("a machine id that may still be minting was leased again")
				}
				time.Sleep(b.registry.cfg.Renewal)
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

func TestRestartWithinATick(t *testing.T) {
	cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 7}
	inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
		seen := b.seen
		for range 20 {
			b.mint()
			b.close()
			b = newTestSonyflake(t, b.registry, cfg)
			b.seen = seen
		}
		b.mint()
		b.close()
	})
}

func TestClose(t *testing.T) {
	inBubble(t, Config{Machines: 3}, func(t *testing.T, b *testSonyflake) {
		if n := b.registry.held(); n != 3 {
			t.Fatalf("%d machine ids are leased", n)
		}
		b.registry.setDown(true)
		if err := b.Close(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("close while the registry is down: %v", err)
		}
		b.wantNotReady()
		b.registry.setDown(false)
		b.close()
		if n := b.registry.held(); n != 0 {
			t.Errorf("%d machine ids are still leased", n)
		}
		b.wantNotReady()
	})
}

func TestNewSonyflakeWaitsForAFreeMachine(t *testing.T) {
	cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 7}
	inBubble(t, cfg, func(t *testing.T, b *testSonyflake) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		second := cfg.withDefaults()
		second.start = b.start
		if _, err := newSonyflake(ctx, b.registry, second); !errors.Is(err, ErrNoLease) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("while the machine id is held: %v", err)
		}
		b.registry.setDown(true)
		if _, err := newSonyflake(t.Context(), b.registry, second); !errors.Is(err, ErrNoLease) {
			t.Errorf("while the registry is down: %v", err)
		}
		b.registry.setDown(false)
	})
}

func TestNextRefusesAnIDThatIsNotAfterTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ticks{start: func() time.Time { return time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC) }}
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

func TestConfig(t *testing.T) {
	valid := map[string]Config{
		"zero":       {},
		"one of one": {Machines: 1, FirstMachine: 3, LastMachine: 3},
		"short":      {TTL: MinTTL},
		"own":        {TTL: time.Minute, Renewal: 50 * time.Second, Retry: 40 * time.Second},
	}
	for name, cfg := range valid {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
		if err := cfg.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v; want ErrInvalid", name, err)
		}
		if _, err := NewSonyflake(t.Context(), nil, cfg); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: NewSonyflake: %v; want ErrInvalid", name, err)
		}
	}
}
