package lua_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(client *redis.Client, prefix string) (lock.Locker, error) {
	return lua.New(client, lua.Config{Prefix: prefix})
}

func TestConformance(t *testing.T) {
	locktest.Run(t, redisstore.Factory("lua", open), promises())
}

// The lock keeps the same promises on a cluster as on one server.
func TestConformanceOnCluster(t *testing.T) {
	open := func(client redis.UniversalClient, prefix string) (lock.Locker, error) {
		return lua.New(client, lua.Config{Prefix: prefix})
	}
	locktest.Run(t, redisstore.ClusterFactory(t, "lua", open), locktest.Only(promises(), redisstore.ClusterBehaviours()...))
}

func promises() locktest.Promises {
	return locktest.FixedLease().
		Except(locktest.Breaks("the client repeats the script, which finds no key and returns expired"),
			locktest.SurvivesLostReleaseReply)
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := lua.New(nil, lua.Config{}); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

func TestReleaseAfterLostReply(t *testing.T) {
	redisstore.ReleaseAfterLostReply(t, open, 1) // the script
}

func TestDeclaresKeys(t *testing.T) {
	redisstore.DeclaresKeys(t, open, nil)
}
