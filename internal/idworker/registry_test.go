package idworker

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// anyRedis returns a client of a real server in make test, else of one in this process.
func anyRedis(t testing.TB) *redis.Client {
	client := redis.NewClient(testkit.AnyRedis(t))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestRegistry(t *testing.T) {
	ctx, client := t.Context(), anyRedis(t)
	cfg := Config{KeyPrefix: testkit.KeyPrefix(t), Machines: 1, FirstMachine: 7, LastMachine: 7, TTL: time.Hour}
	r := newRedisRegistry(client, cfg.withDefaults())
	now := func() reservation { return reserve(r.ticks, time.Second) }
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
	if ttl := client.PTTL(ctx, r.leaseKey(7)).Val(); ttl <= 0 || ttl > cfg.TTL {
		t.Errorf("the lease lasts %v; want %v", ttl, cfg.TTL)
	}
	busy("while it is held", reservation{tick: res.ceiling + 1, ceiling: res.ceiling + 2})
	fail.If(t, r.renew(ctx, g, now()), "renew")
	fail.Unless(t, r.renew(ctx, grant{machine: 7, token: "other"}, now()), errLost, "renew with another token")
	fail.If(t, r.release(ctx, grant{machine: 7, token: "other"}, 0), "release with another token")
	busy("after a release with another token", reservation{tick: res.ceiling + 1000, ceiling: res.ceiling + 1001})

	last := res.tick + 3
	for range 2 { // the reply of the first one may be lost
		fail.If(t, r.release(ctx, g, last), "release")
	}
	fail.Unless(t, r.renew(ctx, g, now()), errLost, "renew after the release")
	busy("with the clock on the mark", reservation{tick: last, ceiling: last + 20})
	dead, err := r.acquire(ctx, reservation{tick: last + 1, ceiling: last + 1000})
	fail.NowIf(t, err, "acquire with the clock past the mark")
	client.Del(ctx, r.leaseKey(7)) // as if it had expired: the mark stays
	busy("with the clock on a dead holder's mark", reservation{tick: last + 1000, ceiling: last + 1020})
	fail.If(t, fail.Of(r.acquire(ctx, reservation{tick: last + 1001, ceiling: last + 1020})), "acquire with the clock past a dead holder's mark")
	fail.Unless(t, r.renew(ctx, dead, now()), errLost, "renew after the lease expired")
}

// A client sends the script again after a lost reply.
func TestAcquireRepeated(t *testing.T) {
	client := anyRedis(t)
	cfg := Config{KeyPrefix: testkit.KeyPrefix(t)}.withDefaults()
	r := newRedisRegistry(client, cfg)
	g, res := grant{machine: 7, token: "mine"}, reserve(r.ticks, cfg.TTL)
	for range 3 {
		if status, _, err := r.tryAcquire(t.Context(), g, res); status != "leased" || err != nil {
			t.Fatalf("try = %s, %v", status, err)
		}
	}
	// A mark in the future is kept until it has passed, and for MarkRetention after that.
	fail.NowIf(t, r.renew(t.Context(), g, reservation{ceiling: res.tick + int64(10*time.Hour/unit)}))
	kept := client.PTTL(t.Context(), r.markKey(7)).Val()
	if want := 10*time.Hour + cfg.MarkRetention; kept < want-time.Hour || kept > want {
		t.Errorf("the mark is kept for %v; want %v", kept, want)
	}
}

func mustMint(t *testing.T, s order.IDs) int64 {
	t.Helper()
	id, err := s.NextID(t.Context())
	fail.NowIf(t, err, "NextID")
	return id
}

// unique collects ids and fails the test on a duplicate.
type unique map[int64]string

func (u unique) add(t *testing.T, who string, ids ...int64) {
	t.Helper()
	for _, id := range ids {
		if id <= 0 {
			t.Fatalf("%s minted %d", who, id)
		}
		if other, ok := u[id]; ok {
			t.Fatalf("%d was minted by %s and by %s", id, other, who)
		}
		u[id] = who
	}
}
