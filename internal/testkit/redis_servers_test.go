package testkit_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func TestRedisClusterServesAllSlots(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t)})
	defer client.Close()
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := client.Set(t.Context(), key, 1, 0).Err(); err != nil {
			t.Error(err)
		}
	}
}

func TestRedisSentinelPromotesTheReplica(t *testing.T) {
	sentinel := testkit.RedisSentinel(t)
	client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: sentinel.MasterName, SentinelAddrs: sentinel.Addrs})
	defer client.Close()
	if err := client.Set(t.Context(), "k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	before := sentinel.Primary()
	sentinel.KillPrimary()

	testkit.Until(t, "a write to succeed on the promoted replica", func() bool {
		return client.Set(t.Context(), "k", 2, 0).Err() == nil
	})
	// The client may have learned of it from another sentinel than the one queried here.
	testkit.Until(t, "the sentinel to name another primary than "+before, func() bool {
		return sentinel.Primary() != before
	})
}

func TestReplicaFollowsUntilItIsPromoted(t *testing.T) {
	primary := testkit.NewRedis(t)
	if err := primary.Client(t).Set(t.Context(), "k", "old", 0).Err(); err != nil {
		t.Fatal(err)
	}
	replica := testkit.NewRedisReplica(t, primary)
	client := replica.Client(t)
	if got, err := client.Get(t.Context(), "k").Result(); got != "old" || err != nil {
		t.Errorf("a replica in sync has %q, %v", got, err)
	}
	if err := client.Set(t.Context(), "k", "new", 0).Err(); !redis.HasErrorPrefix(err, "READONLY") {
		t.Errorf("write to a replica: %v, want READONLY", err)
	}
	primary.Kill()
	replica.Promote()
	if err := client.Set(t.Context(), "k", "new", 0).Err(); err != nil {
		t.Errorf("write to the new primary: %v", err)
	}
}

// A replica whose link is cut misses later writes, as when a primary dies before it has replicated them.
func TestReplicaWithACutLinkMissesWrites(t *testing.T) {
	primary, replica := testkit.NewRedis(t), testkit.NewRedis(t)
	link := testkit.NewProxy(t, primary.Addr())
	replica.ReplicaOf(link.Addr())
	link.Cut()
	if err := primary.Client(t).Set(t.Context(), "k", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	primary.Kill()
	replica.Promote()
	if err := replica.Client(t).Get(t.Context(), "k").Err(); !errors.Is(err, redis.Nil) {
		t.Errorf("the replica received a write after the cut (%v)", err)
	}
}
