package uuid_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(client *redis.Client, prefix string) (lock.Locker, error) {
	return uuid.New(client, uuid.Config{Prefix: prefix})
}

func TestConformance(t *testing.T) {
	locktest.Run(t, redisstore.Factory("uuid", open), promises())
}

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	open := func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return uuid.New(client, uuid.Config{Prefix: prefix})
	}
	locktest.Run(t, redisstore.ClusterFactory(t, "uuid", open), locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func promises() locktest.Promises {
	return locktest.FixedLease().
		Except(locktest.Breaks("GET, compare and DEL are three steps"), locktest.ReleasesAtomically)
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := uuid.New(nil, uuid.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

func TestReleaseAfterLostReply(t *testing.T) {
	redisstore.ReleaseAfterLostReply(t, open, 2) // GET and DEL
}

func TestPassesBetweenCompareAndDelete(t *testing.T) {
	redisstore.PassesBetweenCompareAndDelete(t, open)
}
