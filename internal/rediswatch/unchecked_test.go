package rediswatch_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/testkit"
)

func do(t *testing.T, server *testkit.RedisServer, args ...any) {
	t.Helper()
	if err := server.Client(t).Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

// quickWatch returns a watch that does not wait long for a server that hangs, and its log.
func quickWatch(clients ...redis.UniversalClient) (*rediswatch.Watch, *strings.Builder) {
	var log strings.Builder
	return rediswatch.New(rediswatch.Config{
		Clients: clients, Log: slog.New(slog.NewTextHandler(&log, nil)), Timeout: 500 * time.Millisecond,
	}), &log
}

// expect checks once, and compares the result.
func expect(t *testing.T, when string, w *rediswatch.Watch, want rediswatch.Counts) {
	t.Helper()
	err := w.Check(t.Context())
	if errors.Is(err, rediswatch.ErrEvicts) != (want.Evicting > 0) || w.Counts() != want {
		t.Errorf("%s: %v, %+v, want %+v", when, err, w.Counts(), want)
	}
}

// expectWarning wants exactly one warning that a server is unchecked, with all of the texts.
func expectWarning(t *testing.T, log *strings.Builder, texts ...string) {
	t.Helper()
	if strings.Count(log.String(), "cannot tell whether Redis evicts") != 1 {
		t.Errorf("the log has not exactly one warning:\n%s", log)
	}
	for _, text := range texts {
		if !strings.Contains(log.String(), text) {
			t.Errorf("the log does not contain %q:\n%s", text, log)
		}
	}
}

// Without INFO the primary's replicas are known from ROLE. Without both, the primary is unchecked.
func TestReplicasWithoutInfo(t *testing.T) {
	primary := testkit.NewRedis(t, "--appendonly", "yes")
	testkit.NewRedisReplica(t, primary, "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	do(t, primary, "acl", "setuser", "default", "-info", "-role")
	w, log := newWatch(primary.Client(t))
	for range 2 {
		expect(t, "without INFO and ROLE", w, rediswatch.Counts{Unchecked: 1})
	}
	expectWarning(t, log, primary.Addr(), "replicas are not known", "NOPERM", "'role'")
	do(t, primary, "acl", "setuser", "default", "+role")
	testkit.Until(t, "ROLE lists the replica, which it does once that has acknowledged its data", func() bool {
		_ = w.Check(t.Context())
		return w.Evicts() != nil
	})
	expect(t, "without INFO", w, rediswatch.Counts{Evicting: 1})
	do(t, primary, "acl", "setuser", "default", "-role")
	expect(t, "known replicas without ROLE", w, rediswatch.Counts{Evicting: 1, Unchecked: 1})
}

// A server that does not know a command denies it, as one does that does not permit it.
func TestRenamedCommand(t *testing.T) {
	server := testkit.NewRedis(t, "--rename-command", "CONFIG", "", "--appendonly", "yes")
	w, log := newWatch(server.Client(t))
	expect(t, "with INFO", w, rediswatch.Counts{})
	do(t, server, "acl", "setuser", "default", "-info")
	expect(t, "without INFO", w, rediswatch.Counts{Unchecked: 1})
	expectWarning(t, log, "ERR unknown command", "latest_known_policy=noeviction")
}

// A replica that is listed and has never answered is unchecked. Once it has answered, that counts.
func TestReplicaThatHasNeverAnswered(t *testing.T) {
	for name, silent := range map[string]func(replica *testkit.RedisServer, proxy *testkit.Proxy) (answer func()){
		"paused": func(replica *testkit.RedisServer, _ *testkit.Proxy) func() {
			replica.Pause()
			return replica.Resume
		},
		"unreachable": func(_ *testkit.RedisServer, proxy *testkit.Proxy) func() {
			proxy.Cut()
			return proxy.Reset
		},
	} {
		t.Run(name, func(t *testing.T) {
			primary := testkit.NewRedis(t, "--appendonly", "yes")
			replica := testkit.NewRedis(t, "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
			proxy := testkit.NewProxy(t, replica.Addr())
			_, port, err := net.SplitHostPort(proxy.Addr())
			if err != nil {
				t.Fatal(err)
			}
			do(t, replica, "config", "set", "replica-announce-port", port) // the primary lists the proxy
			replica.ReplicaOf(primary.Addr())
			w, log := quickWatch(primary.Client(t))
			answer := silent(replica, proxy)
			for range 2 {
				expect(t, "it has never answered", w, rediswatch.Counts{Unchecked: 1})
			}
			expectWarning(t, log, proxy.Addr(), "no answer: ")
			answer()
			testkit.Until(t, "the replica has answered", func() bool {
				_ = w.Check(t.Context())
				return w.Counts() == rediswatch.Counts{Evicting: 1}
			})
			answer = silent(replica, proxy)
			expect(t, "it has answered before", w, rediswatch.Counts{Evicting: 1})
			answer()
			expectWarning(t, log)
		})
	}
}

// Whatever a client leads to: it is unchecked as long as no server behind it has answered.
func TestClientWithoutAnAnswer(t *testing.T) {
	server := testkit.NewRedis(t)
	server.Kill()
	for name, client := range map[string]redis.UniversalClient{
		"single node": redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1}),
		"cluster":     redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}, DialerRetries: 1}),
		// The watch does not know what is behind a ring.
		"ring": redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": server.Addr()}}),
	} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			w, log := quickWatch(client)
			for range 2 {
				expect(t, "no answer", w, rediswatch.Counts{Unchecked: 1})
			}
			expectWarning(t, log)
		})
	}
}

// A server is behind two clients, one of which cannot reach it any more, or never could. What the other one has learnt
// counts, whichever comes first, and the server counts once.
func TestServerBehindTwoClients(t *testing.T) {
	server := testkit.NewRedis(t, "--maxmemory-policy", "allkeys-lru", "--appendonly", "yes")
	silent := func() redis.UniversalClient {
		client := redis.NewClient(&redis.Options{
			Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") },
		})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	for name, clients := range map[string][]redis.UniversalClient{
		"the silent one first": {silent(), server.Client(t)}, "the silent one last": {server.Client(t), silent()},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := quickWatch(clients...)
			expect(t, "both", w, rediswatch.Counts{Evicting: 1})
		})
	}
	do(t, server, "acl", "setuser", "default", "-config", "-info", "-role")
	w, _ := quickWatch(server.Client(t), silent())
	expect(t, "unknown to both", w, rediswatch.Counts{Unchecked: 1})
	do(t, server, "acl", "setuser", "default", "+info")
	expect(t, "known now", w, rediswatch.Counts{Evicting: 1})
	do(t, server, "acl", "setuser", "default", "-info")
	expect(t, "known before to one", w, rediswatch.Counts{Evicting: 1, Unchecked: 1})
}

// A server was known to two clients, and one of them no longer reaches it. What the other one hears is newer.
func TestNewestAnswerOfTwoClients(t *testing.T) {
	server := testkit.NewRedis(t, "--appendonly", "yes")
	var cut atomic.Bool
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, PoolSize: 1, ConnMaxIdleTime: time.Nanosecond,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if cut.Load() {
				return nil, errors.New("no way")
			}
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	})
	t.Cleanup(func() { _ = client.Close() })
	w, _ := quickWatch(client, server.Client(t))
	expect(t, "both reach it", w, rediswatch.Counts{})
	cut.Store(true)
	do(t, server, "config", "set", "maxmemory-policy", "allkeys-lru")
	expect(t, "one reaches it", w, rediswatch.Counts{Evicting: 1})
	do(t, server, "config", "set", "maxmemory-policy", "noeviction")
	expect(t, "still one", w, rediswatch.Counts{})
}
