package waited_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/waited"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// patience is how long a replica may take to acknowledge a lock on a slow machine.
const patience = 20 * time.Second

// A replica that acknowledged the lock has it when it is promoted: there is no second holder. One that did not, because
// it is cut off, grants it again although another replica had acknowledged it: WAIT says how many have it and not which
// one will be promoted.
func TestPromotion(t *testing.T) {
	for name, promoteCut := range map[string]bool{"of the replica that has it": false, "of the other one": true} {
		t.Run(name, func(t *testing.T) {
			primary := testkit.NewRedis(t)
			good := testkit.NewRedisReplica(t, primary)
			link := testkit.NewProxy(t, primary.Addr())
			cut := testkit.NewRedis(t)
			cut.ReplicaOf(link.Addr())
			client := redis.NewClient(&redis.Options{Addr: primary.Addr(), ReadTimeout: patience})
			t.Cleanup(func() { _ = client.Close() })
			l := open(t, client, waited.Config{CommandTimeout: patience})

			link.Cut()
			fail.NowIf(t, fail.Of(l.Acquire(t.Context(), "seat", lock.Options{})))
			primary.Kill()
			promoted := good
			if promoteCut {
				promoted = cut
			}
			promoted.Promote()
			next := promoted.Client(t)
			fail.Unequal(t, next.Exists(t.Context(), "lock:waited:{seat}").Val() == 0, promoteCut, "the promoted replica does not have the lock")
		})
	}
}

// Without a replica that is connected there is no lock, and nothing is left.
func TestNoReplicaIsConnected(t *testing.T) {
	client := testkit.NewRedis(t).Client(t)
	_, err := open(t, client, waited.Config{}).Acquire(t.Context(), "seat", lock.Options{})
	mustBeShort(t, err, "0 of 1 replicas")
	fail.Unequal(t, client.DBSize(t.Context()).Val(), 0, "keys")
}

// In a cluster the node that has the lock is asked: here none has a replica.
func TestOnACluster(t *testing.T) {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	l := open(t, client, waited.Config{})
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		_, err := l.Acquire(t.Context(), key, lock.Options{})
		mustBeShort(t, err, "0 of 1 replicas")
		fail.Unequal(t, client.Exists(t.Context(), "lock:waited:{"+key+"}").Val(), 0, "the key is left")
	}
}
