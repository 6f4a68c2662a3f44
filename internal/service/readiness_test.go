package service

import (
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/red"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// Each mechanism belongs to the flow of the servers that it can be opened with.
func TestFlowOfEveryLock(t *testing.T) {
	var nobody []red.Client // opening talks to nobody
	for _, addr := range []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} {
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = client.Close() })
		nobody = append(nobody, client)
	}
	for flow, servers := range map[string]lockers.Servers{
		flowLocal:      {},
		flowRedis:      {Redis: nobody[0].(redis.UniversalClient)},
		flowRedisNodes: {Nodes: nobody},
		flowZooKeeper:  {ZooKeeper: []string{"127.0.0.1:1"}},
	} {
		set, err := lockers.Open(servers, lockers.Config{Log: slog.New(slog.DiscardHandler)})
		fail.NowIf(t, err)
		for _, m := range lock.Catalogue() {
			local := m.Name == "none" || m.Name == "local"
			got := flowOf(voucher.FlowLocked, m.Name) == flow
			if has := slices.Contains(set.Names(), m.Name) && (flow == flowLocal || !local); got != has {
				t.Errorf("%s is counted as %s, and %s has it: %v", m.Name, flowOf(voucher.FlowLocked, m.Name), flow, has)
			}
		}
		fail.If(t, set.Close())
	}
	if flowOf(voucher.FlowLocked, "mysql-row") != flowMySQL || flowOf(voucher.FlowAdmission, "reentrant") != flowAdmission {
		t.Error("MySQL or admission is counted elsewhere")
	}
}

// The independent nodes are ready while a majority of them answers.
func TestMajorityOfTheNodesAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var nodes []red.Client
		var servers []*simulate.Redis
		for range 4 {
			server := simulate.NewRedis(t)
			servers = append(servers, server)
			nodes = append(nodes, server.Client(t))
		}
		for stopped, ready := range []bool{true, true, false} { // two of four are no majority
			if err := askNodes(t.Context(), nodes); (err == nil) != ready {
				t.Errorf("%d of 4 stopped: %v", stopped, err)
			}
			servers[stopped].Stop()
		}
	})
}
