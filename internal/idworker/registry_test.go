package idworker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/sony/sonyflake"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// onBothRedis runs fn with a redis-server and with miniredis.
func onBothRedis(t *testing.T, fn func(t *testing.T, client *redis.Client)) {
	t.Run("redis", func(t *testing.T) { fn(t, testkit.Redis(t).Client(t)) })
	t.Run("miniredis", func(t *testing.T) {
		server := miniredis.RunT(t)
		server.ClockTTL(true)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		t.Cleanup(func() { _ = client.Close() })
		fn(t, client)
	})
}

// TestRegistry runs the same cases on the scripts, with both servers, and on the fake.
func TestRegistry(t *testing.T) {
	cfg := Config{Machines: 1, FirstMachine: 7, LastMachine: 7, TTL: time.Second}
	t.Run("fake", func(t *testing.T) { testRegistry(t, newFakeRegistry(cfg)) })
	onBothRedis(t, func(t *testing.T, client *redis.Client) {
		cfg.KeyPrefix = testkit.KeyPrefix(t)
		testRegistry(t, newRedisRegistry(client, cfg.withDefaults()))
	})
}

func testRegistry(t *testing.T, r registry) {
	ctx := t.Context()
	c := ticks{start: epoch}
	now := func() reservation { return reserve(c, time.Second) }
	busy := func(what string, res reservation) {
		t.Helper()
		_, err := r.acquire(ctx, res)
		if b, ok := errors.AsType[*busyError](err); !ok || b.wait < 0 {
			t.Errorf("%s: %v; want a busyError", what, err)
		}
	}

	res := now()
	g, err := r.acquire(ctx, res)
	if err != nil || g.machine != 7 {
		t.Fatalf("acquire = %+v, %v", g, err)
	}
	busy("while it is held", reservation{tick: res.ceiling + 1, ceiling: res.ceiling + 2})
	if err := r.renew(ctx, g, now()); err != nil {
		t.Errorf("renew: %v", err)
	}
	if err := r.renew(ctx, grant{machine: 7, token: "other"}, now()); !errors.Is(err, errLost) {
		t.Errorf("renew with another token: %v", err)
	}
	if err := r.release(ctx, grant{machine: 7, token: "other"}, 0); err != nil {
		t.Errorf("release with another token: %v", err)
	}
	busy("after a release with another token", reservation{tick: res.ceiling + 1000, ceiling: res.ceiling + 1001})

	last := res.tick + 3
	if err := r.release(ctx, g, last); err != nil {
		t.Errorf("release: %v", err)
	}
	if err := r.release(ctx, g, last); err != nil {
		t.Errorf("second release: %v", err)
	}
	if err := r.renew(ctx, g, now()); !errors.Is(err, errLost) {
		t.Errorf("renew after the release: %v", err)
	}
	busy("with the clock on the mark", reservation{tick: last, ceiling: last + 20})
	dead, err := r.acquire(ctx, reservation{tick: last + 1, ceiling: last + 1000})
	if err != nil {
		t.Fatalf("acquire with the clock past the mark: %v", err)
	}
	// Without a renewal the lease expires, but the mark stays.
	testkit.Until(t, "a dead holder's machine id is leased past its mark", func() bool {
		busy("with the clock on a dead holder's mark", reservation{tick: last + 1000, ceiling: last + 1020})
		_, err := r.acquire(ctx, reservation{tick: last + 1001, ceiling: last + 1020})
		return err == nil
	})
	if err := r.renew(ctx, dead, now()); !errors.Is(err, errLost) {
		t.Errorf("renew after the lease expired: %v", err)
	}
}

// A client sends the script again after a lost reply.
func TestAcquireRepeated(t *testing.T) {
	onBothRedis(t, func(t *testing.T, client *redis.Client) {
		cfg := Config{KeyPrefix: testkit.KeyPrefix(t)}.withDefaults()
		r := newRedisRegistry(client, cfg)
		g, res := grant{machine: 7, token: "mine"}, reserve(r.ticks, cfg.TTL)
		for range 3 {
			if status, _, err := r.tryAcquire(t.Context(), g, res); status != "leased" || err != nil {
				t.Fatalf("try = %s, %v", status, err)
			}
		}
		// A mark in the future is kept until it has passed, and for MarkRetention after that.
		if err := r.renew(t.Context(), g, reservation{ceiling: res.tick + int64(time.Hour/unit)}); err != nil {
			t.Fatal(err)
		}
		kept := client.PTTL(t.Context(), r.markKey(7)).Val()
		if want := time.Hour + cfg.MarkRetention; kept < want-time.Minute || kept > want {
			t.Errorf("the mark is kept for %v; want %v", kept, want)
		}
	})
}

func TestWorkers(t *testing.T) {
	onBothRedis(t, func(t *testing.T, client *redis.Client) {
		const workers = 4
		cfg := Config{KeyPrefix: testkit.KeyPrefix(t)}
		ids, errs := make([][]int64, workers), make([]error, workers)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() { ids[w], errs[w] = burst(t.Context(), client, cfg) })
		}
		wg.Wait()
		seen := unique{}
		for w := range workers {
			if errs[w] != nil {
				t.Fatal(errs[w])
			}
			seen.add(t, fmt.Sprintf("worker %d", w), ids[w]...)
		}
		if len(seen) != workers*burstIDs {
			t.Errorf("%d ids; want %d", len(seen), workers*burstIDs)
		}
		leases := client.Keys(t.Context(), cfg.KeyPrefix+"idworker:{sonyflake}:lease:*").Val()
		if len(leases) != 0 {
			t.Errorf("leases left after Close: %v", leases)
		}
	})
}

func TestLeaseLostInRedis(t *testing.T) {
	onBothRedis(t, func(t *testing.T, client *redis.Client) {
		for name, take := range map[string]func(key string) error{
			"deleted":    func(key string) error { return client.Del(t.Context(), key).Err() },
			"taken over": func(key string) error { return client.Set(t.Context(), key, "other", time.Minute).Err() },
		} {
			t.Run(name, func(t *testing.T) {
				cfg := Config{KeyPrefix: testkit.KeyPrefix(t), Machines: 1, FirstMachine: 7, LastMachine: 8, TTL: time.Second}
				s := open(t, client, cfg)
				before := mustMint(t, s)
				machine := uint16(sonyflake.MachineID(uint64(before)))
				r := newRedisRegistry(client, cfg.withDefaults())
				if err := take(r.leaseKey(machine)); err != nil {
					t.Fatal(err)
				}
				status, _, err := r.tryAcquire(t.Context(), grant{machine: machine, token: "early"}, reserve(r.ticks, cfg.TTL))
				if err != nil || status == "leased" {
					t.Errorf("while the former holder may mint, another acquire got %q, %v", status, err)
				}
				seen := unique{}
				seen.add(t, "before", before)
				testkit.Until(t, "the loss is noticed and another machine id leased", func() bool {
					id, err := s.NextID(t.Context())
					if err != nil {
						return false
					}
					seen.add(t, "s", id)
					return uint16(sonyflake.MachineID(uint64(id))) != machine
				})
			})
		}
	})
}

func TestRedisKilled(t *testing.T) {
	server := testkit.NewRedis(t)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: -1, DialTimeout: 100 * time.Millisecond, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { _ = client.Close() })
	cfg := Config{TTL: time.Second}
	s := open(t, client, cfg)
	seen := unique{}
	seen.add(t, "before", mustMint(t, s))

	killed := time.Now()
	server.Kill()
	var last time.Time
	testkit.Until(t, "minting stops", func() bool {
		begun := time.Now()
		id, err := s.NextID(t.Context())
		if err == nil {
			last = begun
			seen.add(t, "after the kill", id)
			return false
		}
		if !errors.Is(err, ErrNoLease) {
			t.Fatal(err)
		}
		return true
	})
	if late := last.Sub(killed); late > usable(cfg.TTL) {
		t.Errorf("minted %v after Redis was killed; want at most %v", late, usable(cfg.TTL))
	}
	if err := s.Ready(t.Context()); !errors.Is(err, ErrNoLease) {
		t.Errorf("Ready = %v", err)
	}
	if _, err := NewSonyflake(t.Context(), client, cfg); !errors.Is(err, ErrNoLease) || !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("NewSonyflake without Redis: %v", err)
	}
	server.Restart()
	testkit.Until(t, "minting resumes", func() bool { return s.Ready(t.Context()) == nil })
	seen.add(t, "after the restart", mustMint(t, s))
}

// With a GracePeriod, a Redis that lost its data leases nothing until all former holders
// have stopped.
func TestGracePeriod(t *testing.T) {
	onBothRedis(t, func(t *testing.T, client *redis.Client) {
		cfg := Config{KeyPrefix: testkit.KeyPrefix(t), Machines: 1, FirstMachine: 7, LastMachine: 8, TTL: 2 * time.Second}
		cfg.GracePeriod = cfg.TTL
		former := open(t, client, cfg)
		mustMint(t, former)
		held := former.slots[0].generator.Load()

		lost := time.Now()
		if err := client.Del(t.Context(), client.Keys(t.Context(), cfg.KeyPrefix+"*").Val()...).Err(); err != nil {
			t.Fatal(err)
		}
		next := open(t, client, cfg)
		if waited := time.Since(lost); waited < cfg.GracePeriod-2*time.Millisecond {
			t.Errorf("leased %v after the loss; want %v or more", waited, cfg.GracePeriod)
		}
		if err := held.ready(); err == nil {
			t.Error("the machine id leased before the loss is still minting")
		}
		mustMint(t, next)
	})
}

// open returns a Sonyflake that is closed when the test ends.
func open(t *testing.T, client redis.Scripter, cfg Config) *Sonyflake {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := NewSonyflake(ctx, client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func mustMint(t *testing.T, s order.IDs) int64 {
	t.Helper()
	id, err := s.NextID(t.Context())
	if err != nil {
		t.Fatalf("NextID: %v", err)
	}
	return id
}
