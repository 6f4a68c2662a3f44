package testkit_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

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
