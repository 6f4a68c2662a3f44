package redis_test

import (
	"testing"

	"seckill/internal/testkit"
)

func TestSoakConformanceOnServers(t *testing.T) {
	testkit.Soak(t)
	for _, m := range mechanisms() {
		t.Run(m.Name, m.Soak)
	}
}

func TestSoakConformanceOnCluster(t *testing.T) {
	testkit.Soak(t)
	addrs := testkit.RedisCluster(t)
	for _, m := range mechanisms() {
		if m.Nodes <= 1 && m.Server == nil {
			t.Run(m.Name, func(t *testing.T) { m.SoakOnCluster(t, addrs) })
		}
	}
}
