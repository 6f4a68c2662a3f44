package admission

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// withReplicas gives each primary of a cluster a replica, and waits until the replicas have caught up. It
// returns them by the address of their primary.
func withReplicas(t *testing.T, addrs []string) map[string]*testkit.RedisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	of := make(map[string]*testkit.RedisServer)
	for _, addr := range addrs {
		id := redis.NewClient(&redis.Options{Addr: addr}).ClusterMyID(t.Context()).Val()
		replica := testkit.NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		client := replica.Client(t)
		if err := client.ClusterMeet(t.Context(), host, port).Err(); err != nil {
			t.Fatal(err)
		}
		// A node must know its primary before it can follow it.
		testkit.Until(t, "a replica that follows "+addr, func() bool { return client.ClusterReplicate(t.Context(), id).Err() == nil })
		inStep(t, addr)
		of[addr] = replica
	}
	// The nodes do not elect a node that they do not know.
	for _, addr := range addrs {
		client := dial(t, at(addr))
		testkit.Until(t, "a node that knows all replicas", func() bool {
			known := client.ClusterNodes(t.Context()).Val()
			return strings.Count(known, "slave ") == len(addrs) && strings.Count(known, " connected") == 2*len(addrs)
		})
	}
	return of
}

// In a cluster the gate waits for the replicas of the node that has the voucher's slot. When that node
// dies, its replica has every acknowledged order.
func TestClusterWaitsAndFailsOver(t *testing.T) {
	t.Parallel()
	addrs := testkit.RedisCluster(t)
	replicas := withReplicas(t, addrs)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	where := map[string]*fixture{} // by the primary of its slot
	gates := map[string]*Gate{}
	for id := int64(7001); len(where) < len(addrs); id++ {
		s := newFixture(t, at(addrs[0]), 100)
		s.store.voucher.ID = id
		s.client, s.keys = client, ledger.KeysOf(s.prefix, id, 0)
		node, err := client.MasterForKey(t.Context(), s.keys.Meta)
		if err != nil {
			t.Fatal(err)
		}
		addr := node.Options().Addr
		if where[addr] != nil {
			continue
		}
		where[addr] = s
		c := s.config
		c.Client, c.WaitReplicas = client, 1
		c.AttemptTimeout, c.DecisionTimeout = time.Second, 3*time.Second
		c = c.WithDefaults()
		gates[addr] = newGate(c, newLedger(c))
		t.Cleanup(func() { _ = gates[addr].Close() })
	}
	for addr, s := range where {
		for user := range int64(5) {
			if err := s.buy(gates[addr], user+1, user+11); err != nil {
				t.Fatalf("at %s: %v", addr, err)
			}
		}
	}
	victim := addrs[0]
	s, g := where[victim], gates[victim]
	replicas[victim].Pause()
	if err := s.buy(g, 20, 200); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("without its replica: %v", err)
	}
	if err := where[addrs[1]].buy(gates[addrs[1]], 20, 200); err != nil {
		t.Errorf("at another node: %v", err)
	}
	replicas[victim].Resume()
	inStep(t, victim)
	if err := s.buy(g, 20, 200); err != nil {
		t.Errorf("with it again: %v", err)
	}
	killAt(t, victim)
	killed := time.Now()
	// The promoted replica has no replica itself, so no order is acknowledged by a process that waits for
	// one. A process that does not wait goes on selling.
	other := s.gate(func(c *Config) { c.Client = client })
	finish := s.run()
	defer finish()
	testkit.Until(t, "a sale that goes on", func() bool { return s.buy(other, 30, 300) == nil })
	t.Logf("on sale again %v after the primary's death", time.Since(killed).Round(time.Millisecond))
	for _, user := range []int64{1, 2, 3, 4, 5} {
		if err := s.buy(other, user, user+10); err != nil {
			t.Errorf("the order of user %d, that was promised, is gone: %v", user, err)
		}
	}
	if err := s.buy(g, 31, 310); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("told without a replica: %v", err)
	}
	if st := s.store.epochState; st.Epoch != 2 {
		t.Errorf("epoch %d: nothing was lost, and it was closed", st.Epoch)
	}
}

// killAt kills the server at an address with SIGKILL.
func killAt(t *testing.T, addr string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	pid, err := strconv.Atoi(strings.TrimSpace(client.InfoMap(context.Background(), "server").Item("Server", "process_id")))
	if err != nil || pid < 2 {
		t.Fatalf("process %d at %s: %v", pid, addr, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}
