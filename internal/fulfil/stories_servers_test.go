package fulfil

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func TestStoriesOnServers(t *testing.T) {
	t.Parallel()
	nodes := testkit.RedisCluster(t)
	for name, story := range stories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story.tell(t, openReal(t, clientOf(t, testkit.Redis(t).Addr()), testkit.MariaDB(t), story.of))
		})
		// In a cluster the streams are in different slots, so no command reads all of them.
		if story.of.vouchers > 1 || strings.HasPrefix(name, "buckets") && name != "buckets: one batch of all of them" {
			t.Run(name+", in a cluster", func(t *testing.T) {
				t.Parallel()
				client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: nodes, MaxRedirects: 3, ContextTimeoutEnabled: true})
				t.Cleanup(func() { _ = client.Close() })
				story.tell(t, openReal(t, client, testkit.MariaDB(t), story.of))
			})
		}
	}
}

// openReal returns an env on real servers.
func openReal(t testing.TB, client redis.UniversalClient, where testkit.Database, of sale) *env {
	t.Helper()
	s := openEnv(t, client, where, of)
	s.sleep = time.Sleep
	return s
}

// clientOf returns a client with the service's options.
func clientOf(t testing.TB, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
