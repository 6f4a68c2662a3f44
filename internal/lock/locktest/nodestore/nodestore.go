// Package nodestore starts the independent redis-servers of a mechanism that needs several, and opens its clients.
package nodestore

import (
	"context"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// Start starts n independent redis-servers. They stop when t and its subtests have ended.
func Start(t testing.TB, n int) []*testkit.RedisServer {
	t.Helper()
	servers := make([]*testkit.RedisServer, n)
	for i := range servers {
		servers[i] = testkit.NewRedis(t)
	}
	return servers
}

// Dial opens a client of one node for a process. Its commands end with their context. It does not repeat dialling, so
// that a dead node is noticed at once.
func Dial(tb testing.TB, addr string, network *locktest.Network) *redis.Client {
	tb.Helper()
	if network == nil {
		return dial(tb, addr, nil)
	}
	return dial(tb, addr, network.Dial)
}

func dial(
	tb testing.TB, addr string, dialer func(ctx context.Context, network, addr string) (net.Conn, error),
) *redis.Client {
	tb.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: addr, Dialer: dialer, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		// After so many failures go-redis dials in the background, even if it is closed.
		PoolSize: 1000,
	})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

// DialAll opens a client of each server for one process.
func DialAll(tb testing.TB, servers []*testkit.RedisServer, network *locktest.Network) []*redis.Client {
	tb.Helper()
	clients := make([]*redis.Client, len(servers))
	for i, s := range servers {
		clients[i] = Dial(tb, s.Addr(), network)
	}
	return clients
}

// Has reports for each server whether it has a key: false if it does not answer.
func Has(tb testing.TB, servers []*testkit.RedisServer, key string) []bool {
	tb.Helper()
	has := make([]bool, len(servers))
	for i, s := range servers {
		has[i] = s.Client(tb).Exists(tb.Context(), key).Val() == 1
	}
	return has
}
