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

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// withReplicas gives each primary of a cluster a replica, and waits until they are in
// step. It returns them by their primary's address.
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
		// It has to have heard of its primary before it can follow it.
		eventually(t, "a replica that follows "+addr, func() bool { return client.ClusterReplicate(t.Context(), id).Err() == nil })
		inStep(t, addr)
		of[addr] = replica
	}
	// Whom the nodes do not know they do not elect.
	for _, addr := range addrs {
		client := dial(t, addr)
		eventually(t, "a node that knows all replicas", func() bool {
			known := client.ClusterNodes(t.Context()).Val()
			return strings.Count(known, "slave ") == len(addrs) && strings.Count(known, " connected") == 2*len(addrs)
		})
	}
	return of
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never %s", what)
		}
	}
}

// In a cluster the replicas of the node that has the voucher's slot are asked, whichever
// of them that is; and when that node dies, its replica has what was promised.
func TestClusterWaitsAndFailsOver(t *testing.T) {
	addrs := testkit.RedisCluster(t)
	replicas := withReplicas(t, addrs)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	where := map[string]*stage{} // by the primary of its slot
	gates := map[string]*Gate{}
	for id := int64(7001); len(where) < len(addrs); id++ {
		s := newStage(t, addrs[0], 100)
		s.shelf.voucher.ID = id
		s.client, s.keys = client, admkey.Of(s.prefix, id, 0)
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
		c.AttemptTimeout, c.Patience = 300*time.Millisecond, time.Second
		c = c.WithDefaults()
		gates[addr] = newGate(c, newServer(client).waiting(c))
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
	if err := s.buy(g, 20, 200); err != nil {
		t.Errorf("with it again: %v", err)
	}
	killAt(t, victim)
	killed := time.Now()
	// What was its replica has none itself, so nobody can be promised anything that waits
	// for one; a process that does not wait sells on.
	other := s.gate(func(c *Config) { c.Client = client })
	finish := s.run()
	defer finish()
	eventually(t, "a sale that goes on", func() bool { return s.buy(other, 30, 300) == nil })
	t.Logf("on sale again %v after the primary's death", time.Since(killed).Round(time.Millisecond))
	for _, user := range []int64{1, 2, 3, 4, 5} {
		if err := s.buy(other, user, user+10); err != nil {
			t.Errorf("the order of user %d, that was promised, is gone: %v", user, err)
		}
	}
	if err := s.buy(g, 31, 310); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("told without a replica: %v", err)
	}
	if st := s.shelf.standing; st.Epoch != 2 {
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
