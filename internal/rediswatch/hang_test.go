package rediswatch_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/testkit"
)

// While one server hangs, what another one answers takes effect.
func TestChangeWhileAnotherServerHangs(t *testing.T) {
	const long = 30 * time.Second // as long as a check waits for the server that hangs
	client := func(t *testing.T, server *testkit.RedisServer) redis.UniversalClient {
		c := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true, ReadTimeout: long, MaxRetries: -1})
		t.Cleanup(func() { c.Close() })
		return c
	}
	for name, start := range map[string]func(t *testing.T) (hangs, changes *testkit.RedisServer, clients []redis.UniversalClient){
		"primary": func(t *testing.T) (_, _ *testkit.RedisServer, _ []redis.UniversalClient) {
			primary := testkit.NewRedis(t)
			return primary, testkit.NewRedisReplica(t, primary), []redis.UniversalClient{client(t, primary)}
		},
		"replica": func(t *testing.T) (_, _ *testkit.RedisServer, _ []redis.UniversalClient) {
			primary := testkit.NewRedis(t)
			return testkit.NewRedisReplica(t, primary), primary, []redis.UniversalClient{client(t, primary)}
		},
		"independent node": func(t *testing.T) (_, _ *testkit.RedisServer, _ []redis.UniversalClient) {
			a, b := testkit.NewRedis(t), testkit.NewRedis(t)
			return a, b, []redis.UniversalClient{client(t, a), client(t, b)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hangs, changes, clients := start(t)
			w := rediswatch.New(rediswatch.Config{Clients: clients, Log: slog.New(slog.DiscardHandler), Timeout: long})
			if err := w.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			hangs.Pause()
			do(t, changes, "config", "set", "maxmemory-policy", "allkeys-lru")
			noticesDuringCheck(t, w, hangs.Resume)
		})
	}
}

// noticesDuringCheck wants a check to notice that a server evicts before it ends, which it does once goOn was called.
func noticesDuringCheck(t *testing.T, w *rediswatch.Watch, goOn func()) {
	t.Helper()
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = w.Check(t.Context())
		ended.Store(true)
	}()
	testkit.Until(t, "a server evicts, or the check ended", func() bool { return w.Evicts() != nil || ended.Load() })
	if ended.Load() {
		t.Errorf("%v, known only when the check ended", w.Evicts())
	}
	goOn()
	<-done
}

// While no node of a cluster lists the others, those that the client knows are asked.
func TestClusterListingHangs(t *testing.T) {
	addrs := testkit.RedisCluster(t)
	var slots []redis.ClusterSlot // which node has which does not matter here
	for i, addr := range addrs {
		slots = append(slots, redis.ClusterSlot{Start: i, End: i, Nodes: []redis.ClusterNode{{Addr: addr}}})
	}
	node := redis.NewClient(&redis.Options{Addr: addrs[0]})
	defer node.Close()
	var hangs atomic.Bool
	goOn := make(chan struct{})
	client := redis.NewClusterClient(&redis.ClusterOptions{ContextTimeoutEnabled: true,
		ClusterSlots: func(ctx context.Context) ([]redis.ClusterSlot, error) {
			if hangs.Load() {
				select {
				case <-goOn:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			return slots, nil
		}})
	defer client.Close()
	set := func(policy string) {
		t.Helper()
		if err := node.ConfigSet(t.Context(), "maxmemory-policy", policy).Err(); err != nil {
			t.Fatal(err)
		}
	}
	patient := rediswatch.New(rediswatch.Config{
		Clients: []redis.UniversalClient{client}, Log: slog.New(slog.DiscardHandler), Timeout: 30 * time.Second,
	})
	expect(t, "the cluster answers", patient, rediswatch.Counts{WithoutAOF: len(addrs)}) // now the client knows the nodes
	hangs.Store(true)
	set("allkeys-lru")
	w, _ := quickWatch(client)
	becomes := func(when string, want rediswatch.Counts) { // a busy node may need several checks to answer in time
		t.Helper()
		testkit.Until(t, when, func() bool { _ = w.Check(t.Context()); return w.Counts() == want })
	}
	becomes("the first listing hangs", rediswatch.Counts{Evicting: 1, WithoutAOF: len(addrs)})
	set("noeviction")
	becomes("the second one hangs", rediswatch.Counts{WithoutAOF: len(addrs)})
	set("allkeys-lru")
	noticesDuringCheck(t, patient, func() { close(goOn) })
}
