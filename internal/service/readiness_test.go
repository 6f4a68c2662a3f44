package service

import (
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
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

// The independent nodes are ready while a majority of them takes writes.
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
			if err := askNodes(t.Context(), nodes, "probe:"); (err == nil) != ready {
				t.Errorf("%d of 4 stopped: %v", stopped, err)
			}
			servers[stopped].Stop()
		}
		for i, server := range servers {
			server.Start()
			if i < 2 {
				server.Refuse(func(string, ...string) string { return "OOM command not allowed when used memory > 'maxmemory'." })
			}
		}
		if err := askNodes(t.Context(), nodes, "probe:"); err == nil {
			t.Error("two of four refuse writes, and they are ready")
		}
	})
}

// A Redis that answers PING and refuses writes is not ready for the flows that need it.
func TestReadinessWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		db, err := database.Open(t.Context(), database.Config{SQLite: filepath.Join(t.TempDir(), "db")})
		fail.NowIf(t, err)
		defer db.Close()
		ready := readinessConfig(Config{}, &stores{redis: server.Client(t), db: db}, &admissionFlow{}, nil, idSource{})
		failing := func() (names []string) {
			for _, c := range ready.Checks {
				if slices.Contains([]string{"redis", "database"}, c.Name) && c.Ask(t.Context()) != nil {
					names = append(names, c.Name)
				}
			}
			return names
		}
		if names := failing(); len(names) > 0 {
			t.Errorf("%q fail", names)
		}
		server.Refuse(func(command string, _ ...string) string {
			return map[string]string{"SET": "READONLY You can't write against a read only replica."}[command]
		})
		if names := failing(); !slices.Equal(names, []string{"redis"}) {
			t.Errorf("%q fail, want redis", names)
		}
	})
}
