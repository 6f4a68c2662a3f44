package redis_test

import (
	"testing"

	"seckill/internal/testkit"
)

func TestConformanceOnServers(t *testing.T) {
	for _, m := range mechanisms() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			m.Run(t)
		})
	}
}

// The locks of one server that need no other one than a redis-server keep the same promises on a cluster.
func TestConformanceOnCluster(t *testing.T) {
	addrs := testkit.RedisCluster(t)
	for _, m := range mechanisms() {
		if m.Nodes > 1 || m.Server != nil {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			m.RunOnCluster(t, addrs)
		})
	}
}

func TestDeclaresKeys(t *testing.T) {
	for _, m := range mechanisms() {
		if m.Renews() && m.Nodes == 0 && m.Server == nil || m.Name == "lua" {
			t.Run(m.Name, m.DeclaresKeys)
		}
	}
}

func primaryWithReplica(t testkit.TB) *testkit.RedisServer {
	primary := testkit.NewRedis(t)
	testkit.NewRedisReplica(t, primary)
	return primary
}
