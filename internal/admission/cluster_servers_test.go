package admission

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	addrs := testkit.RedisCluster(t)
	for _, addr := range addrs {
		fail.NowIf(t, dial(t, at(addr)).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	t.Run("one bucket", func(t *testing.T) { sellsOnACluster(t, addrs, 1, anyBucket) })
	t.Run("six buckets", func(t *testing.T) { sellsOnACluster(t, addrs, 6, anyBucket) })
	t.Run("six, all buyers in one", func(t *testing.T) { sellsOnACluster(t, addrs, 6, func(b int) bool { return b == 1 }) })
	t.Run("a node hangs", func(t *testing.T) { nodeHangs(t, addrs) })
}

// clustered is a sale on a cluster.
type clustered struct {
	*fixture
	cluster *redis.ClusterClient
}

func newClustered(t *testing.T, addrs []string, stock int64, buckets int) *clustered {
	t.Helper()
	s := newFixture(t, at(addrs[0]), stock)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = cluster.Close() })
	s.client, s.config.Client = cluster, cluster
	s.config.Prefix = fmt.Sprintf("%s%d:", s.prefix, buckets)
	s.keys = ledger.KeysOf(s.config.Prefix, s.store.voucher.ID, 0)
	s.split(buckets)
	return &clustered{fixture: s, cluster: cluster}
}

// node returns the primary that has a bucket.
func (c *clustered) node(keys ledger.Keys) *redis.Client {
	c.t.Helper()
	node, err := c.cluster.MasterForKey(context.Background(), keys.Meta)
	fail.NowIf(c.t, err)
	return node
}

func (c *clustered) addr(keys ledger.Keys) string { return c.node(keys).Options().Addr }

// sellsOnACluster sells a voucher, and rebuilds it.
func sellsOnACluster(t *testing.T, addrs []string, buckets int, wanted func(int) bool) {
	s := newClustered(t, addrs, 300, buckets)
	nodes := map[string]bool{}
	for _, keys := range s.buckets() {
		nodes[s.addr(keys)] = true
	}
	if len(nodes) < min(2, buckets) {
		t.Fatalf("all buckets are on %v", nodes)
	}
	gates := []*Gate{s.gate(nil), s.gate(nil)}
	users := usersOf(600, buckets, wanted)
	fail.Unequal(t, crowd(t, s.fixture, gates, users), 300, "sold")
	found := ordersOf(t, gates[1], users)
	s.takeAll()
	for user := range s.store.orders {
		fail.Unequal(t, found[user], 1_000_000+user, "OrdersOf(%d)", user)
	}
	lost := s.buckets()[buckets/2]
	fail.NowIf(t, s.client.Del(t.Context(), lost.Meta, lost.Users).Err())
	gates[0].Check(t.Context())
	fail.NowIf(t, gates[0].Open(t.Context(), &s.store.voucher))
	for user := range s.store.orders {
		fail.Unless(t, s.buy(s.gate(nil), user, 5), order.ErrAlreadyOrdered, "after the rebuild")
		break
	}
	s.balanced(gates[1], 300)
}

// One node hangs. Nobody waits for longer than one timeout, however many vouchers it has: orders on other nodes are
// found without it, and buyers of buckets on other nodes get the whole stock of those nodes.
func nodeHangs(t *testing.T, addrs []string) {
	const buckets = 6
	limits := func(c *Config) { c.AttemptTimeout, c.DecisionTimeout = 2*time.Second, 10*time.Second }
	h, wide := newClustered(t, addrs, 10, 1), newClustered(t, addrs, 60, buckets)
	g, wideGate := h.gate(limits), wide.gate(limits)
	fail.NowIf(t, h.buy(g, 1, 11))
	fail.NowIf(t, wideGate.Open(t.Context(), &wide.store.voucher))
	victim := wide.buckets()[slices.IndexFunc(wide.buckets(), func(keys ledger.Keys) bool {
		return wide.addr(keys) != wide.addr(wide.keys) && wide.addr(keys) != h.addr(h.keys)
	})]
	hangs := wide.addr(victim)
	for id, added := h.store.voucher.ID, 0; added < 2*bucketsPerCall+1; {
		if id++; h.addr(h.bucketOf(id, 0)) == hangs {
			h.add(otherVoucher{id: id, buckets: 1, epoch: 2, orders: map[int64]int64{5: id}})
			added++
		}
	}
	lookUp := func() {
		if o, err := g.Lookup(t.Context(), 1, 11); err != nil || o.ID != 11 {
			t.Errorf("an order on another node: %+v, %v", o, err)
		}
		fail.Unless(t, fail.Of(g.Lookup(t.Context(), 1, 12)), order.ErrUnavailable, "an order that the node which hangs may have")
	}

	hook := &pipelines{before: func(ctx context.Context, commands []redis.Cmder) error {
		if asksForUsers(commands) {
			<-ctx.Done() // it has said which vouchers have pending orders
			return ctx.Err()
		}
		return nil
	}}
	h.node(h.bucketOf(h.store.others[0].VoucherID, 0)).AddHook(hook)
	lookUp()
	if n := len(hook.usersAsked()); n > 2 {
		t.Errorf("a node that hangs was asked %d times in 2 scans", n)
	}

	signal(t, wide.node(victim), syscall.SIGSTOP)
	lookUp()
	reachable := 0
	for _, keys := range wide.buckets() {
		if wide.addr(keys) != hangs {
			reachable += 60 / buckets
		}
	}
	for _, user := range usersOf(reachable, buckets, func(b int) bool { return b == 0 }) {
		fail.NowIf(t, wide.buy(wideGate, user, 100+user), "when %d are in reach", reachable)
	}
}

// signal sends a signal to a server. One that is stopped goes on at the end.
func signal(t *testing.T, client *redis.Client, what syscall.Signal) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(client.InfoMap(t.Context(), "server").Item("Server", "process_id")))
	if err != nil || pid < 2 {
		t.Fatalf("process %d: %v", pid, err)
	}
	fail.NowIf(t, syscall.Kill(pid, what))
	if what == syscall.SIGSTOP {
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	}
}

// withReplicas gives each primary of a cluster a replica, and waits until the replicas have caught up. It returns them
// by the address of their primary.
func withReplicas(t *testing.T, addrs []string) map[string]*testkit.RedisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(addrs[0])
	fail.NowIf(t, err)
	of := make(map[string]*testkit.RedisServer)
	for _, addr := range addrs {
		id := redis.NewClient(&redis.Options{Addr: addr}).ClusterMyID(t.Context()).Val()
		replica := testkit.NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		client := replica.Client(t)
		fail.NowIf(t, client.ClusterMeet(t.Context(), host, port).Err())
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

// In a cluster the gate waits for the replicas of the node that has the voucher's slot. When that node dies, its
// replica has every acknowledged order.
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
		fail.NowIf(t, err)
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
			fail.NowIf(t, s.buy(gates[addr], user+1, user+11), "at %s", addr)
		}
	}
	victim := addrs[0]
	s, g := where[victim], gates[victim]
	replicas[victim].Pause()
	fail.Unless(t, s.buy(g, 20, 200), order.ErrUnavailable, "without its replica")
	fail.Unless(t, where[addrs[1]].buy(gates[addrs[1]], 20, 200), nil, "at another node")
	replicas[victim].Resume()
	inStep(t, victim)
	fail.Unless(t, s.buy(g, 20, 200), nil, "with it again")
	signal(t, dial(t, at(victim)), syscall.SIGKILL)
	// The promoted replica has no replica itself, so no order is acknowledged by a process that waits for one. A
	// process that does not wait goes on selling.
	other := s.gate(func(c *Config) { c.Client = client })
	finish := s.run()
	defer finish()
	testkit.Until(t, "a sale that goes on", func() bool { return s.buy(other, 30, 300) == nil })
	for _, user := range []int64{1, 2, 3, 4, 5} {
		fail.If(t, s.buy(other, user, user+10), "the order of user %d, that was promised, is gone", user)
	}
	fail.Unless(t, s.buy(g, 31, 310), order.ErrUnavailable, "told without a replica")
	fail.Unequal(t, s.store.epochState.Epoch, 2, "nothing was lost: epoch")
}
