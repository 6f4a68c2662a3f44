package admission

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// A node stops after it has said which vouchers have pending orders. Nobody waits for longer than one timeout,
// however many vouchers it has; orders on other nodes are found without waiting for it.
func TestNodeThatHangsWhenAskedForUsers(t *testing.T) {
	t.Parallel()
	h := newHung(t, 10, 1)
	g := h.gate(func(c *Config) { c.AttemptTimeout, c.DecisionTimeout = 2*time.Second, 10*time.Second })
	must(t, h.buy(g, 1, 11))
	id, victim := h.store.voucher.ID, ""
	for added := 0; added < 2*bucketsPerCall+1; {
		id++
		switch addr := h.node(h.bucketOf(id, 0)).Options().Addr; {
		case addr == h.node(h.keys).Options().Addr:
			continue
		case victim == "":
			victim = addr
		case addr != victim:
			continue
		}
		h.add(otherVoucher{id: id, buckets: 1, epoch: 2, orders: map[int64]int64{5: id}})
		added++
	}
	hook := &pipelines{before: func(ctx context.Context, commands []redis.Cmder) error {
		if asksForUsers(commands) {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}}
	h.node(h.bucketOf(id, 0)).AddHook(hook)
	checkLookups(t, g)
	if n := len(hook.usersAsked()); n > 2 {
		t.Errorf("a node that hangs was asked %d times in 2 scans", n)
	}
}

// hung is a sale on a cluster in which one node can be stopped.
type hung struct {
	*fixture
	cluster *redis.ClusterClient
}

func newHung(t *testing.T, stock int64, buckets int) *hung {
	t.Helper()
	addrs := testkit.RedisCluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	sh := newStore(stock)
	prefix := testkit.KeyPrefix(t)
	s := &fixture{t: t, consumer: &consumer{tb: t, client: client, store: sh, keys: ledger.KeysOf(prefix, sh.voucher.ID, 0)}}
	s.config = Config{Client: client, Store: sh, Workers: workers{complete: true}, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: prefix, OpenWait: 5 * time.Second}
	s.split(buckets)
	for _, addr := range addrs {
		must(t, dial(t, at(addr)).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err())
	}
	return &hung{fixture: s, cluster: client}
}

func (h *hung) node(keys ledger.Keys) *redis.Client {
	h.t.Helper()
	node, err := h.cluster.MasterForKey(context.Background(), keys.Meta)
	must(h.t, err)
	return node
}

// stop stops the node that has a key, until the end of the test.
func (h *hung) stop(keys ledger.Keys) {
	h.t.Helper()
	id := h.node(keys).InfoMap(context.Background(), "server").Item("Server", "process_id")
	pid, err := strconv.Atoi(strings.TrimSpace(id))
	if err != nil || pid < 2 {
		h.t.Fatalf("process %q: %v", id, err)
	}
	must(h.t, syscall.Kill(pid, syscall.SIGSTOP))
	h.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

// One node of a cluster hangs. Buyers of buckets on other nodes get the whole stock of those nodes.
func TestRebalancingWhileANodeHangs(t *testing.T) {
	t.Parallel()
	const buckets = 6
	h := newHung(t, 60, buckets)
	g := h.gate(func(c *Config) { c.AttemptTimeout = 2 * time.Second; c.DecisionTimeout = 10 * time.Second })
	must(t, g.Open(t.Context(), &h.store.voucher))
	reachable, stopped := int64(0), ""
	for _, keys := range h.buckets()[1:] {
		if addr := h.node(keys).Options().Addr; addr != h.node(h.keys).Options().Addr {
			stopped = addr
			h.stop(keys)
			break
		}
	}
	for _, keys := range h.buckets() {
		if h.node(keys).Options().Addr != stopped {
			reachable += 10
		}
	}
	if reachable <= 10 || reachable == 60 {
		t.Fatalf("%d pieces in reach: this proves nothing", reachable)
	}
	users := usersOf(int(reachable), buckets, func(b int) bool { return b == 0 })
	for _, user := range users {
		if err := h.buy(g, user, 100+user); err != nil {
			t.Fatalf("%v, when %d are in reach", err, reachable)
		}
	}
}

// A lookup does not depend on a node that has only other vouchers.
func TestLookupWhileANodeHangs(t *testing.T) {
	t.Parallel()
	h := newHung(t, 10, 1)
	g := h.gate(func(c *Config) { c.AttemptTimeout, c.DecisionTimeout = 2*time.Second, 10*time.Second })
	must(t, h.buy(g, 1, 11))
	other := h.store.voucher.ID + 1
	for h.node(ledger.KeysOf(h.config.Prefix, other, 0)) == h.node(h.keys) {
		other++
	}
	h.store.others = []order.AdmissionVoucher{{VoucherID: other, Buckets: 1, Epoch: 2}}
	h.stop(ledger.KeysOf(h.config.Prefix, other, 0))
	checkLookups(t, g)
}

func TestSplitVoucherOnACluster(t *testing.T) {
	t.Parallel()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: testkit.RedisCluster(t), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = client.Close() })
	for id, c := range []struct {
		buckets int
		wanted  func(int) bool
	}{{1, anyBucket}, {6, anyBucket}, {6, func(b int) bool { return b == 1 }}} {
		buckets, wanted := c.buckets, c.wanted
		sh := newStore(300)
		sh.voucher.ID += int64(id)
		s := &fixture{t: t, consumer: &consumer{tb: t, client: client, store: sh, keys: ledger.KeysOf("split:", sh.voucher.ID, 0)}}
		s.config = Config{Client: client, Store: sh, Locker: local.New(), Log: slog.New(slog.DiscardHandler), Prefix: "split:",
			AttemptTimeout: 10 * time.Second, DecisionTimeout: 30 * time.Second, OpenWait: 5 * time.Second, // a busy machine is no outage
		}
		s.split(buckets)
		nodes := map[string]bool{}
		for _, keys := range s.buckets() {
			node, err := client.MasterForKey(t.Context(), keys.Meta)
			must(t, err)
			nodes[node.Options().Addr] = true
		}
		if len(nodes) < min(2, buckets) {
			t.Fatalf("all buckets are on %v", nodes)
		}
		gates := []*Gate{s.gate(nil), s.gate(nil)}
		users := usersOf(600, buckets, wanted)
		if sold := crowd(t, s, gates, users); sold != 300 {
			t.Errorf("%d sold, want 300", sold)
		}
		found := ordersOf(t, gates[1], users)
		s.takeAll()
		for user := range sh.orders {
			if found[user] != 1_000_000+user {
				t.Errorf("OrdersOf(%d) = %d", user, found[user])
			}
		}
		// Rebuilt on the cluster, too.
		must(t, client.Del(t.Context(), s.buckets()[buckets/2].Meta, s.buckets()[buckets/2].Users).Err())
		gates[0].Check(t.Context())
		must(t, gates[0].Open(t.Context(), &sh.voucher))
		for user := range sh.orders {
			if err := s.buy(s.gate(nil), user, 5); !errors.Is(err, order.ErrAlreadyOrdered) {
				t.Errorf("user %d, after the rebuild: %v", user, err)
				break
			}
		}
		s.balanced(gates[1], 300)
	}
}

// withReplicas gives each primary of a cluster a replica, and waits until the replicas have caught up. It
// returns them by the address of their primary.
func withReplicas(t *testing.T, addrs []string) map[string]*testkit.RedisServer {
	t.Helper()
	host, port, err := net.SplitHostPort(addrs[0])
	must(t, err)
	of := make(map[string]*testkit.RedisServer)
	for _, addr := range addrs {
		id := redis.NewClient(&redis.Options{Addr: addr}).ClusterMyID(t.Context()).Val()
		replica := testkit.NewRedis(t, "--cluster-enabled", "yes", "--cluster-node-timeout", "2000")
		client := replica.Client(t)
		must(t, client.ClusterMeet(t.Context(), host, port).Err())
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
		must(t, err)
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
	wantErr(t, "without its replica", s.buy(g, 20, 200), order.ErrUnavailable)
	wantErr(t, "at another node", where[addrs[1]].buy(gates[addrs[1]], 20, 200), nil)
	replicas[victim].Resume()
	inStep(t, victim)
	wantErr(t, "with it again", s.buy(g, 20, 200), nil)
	killAt(t, victim)
	// The promoted replica has no replica itself, so no order is acknowledged by a process that waits for
	// one. A process that does not wait goes on selling.
	other := s.gate(func(c *Config) { c.Client = client })
	finish := s.run()
	defer finish()
	testkit.Until(t, "a sale that goes on", func() bool { return s.buy(other, 30, 300) == nil })
	for _, user := range []int64{1, 2, 3, 4, 5} {
		if err := s.buy(other, user, user+10); err != nil {
			t.Errorf("the order of user %d, that was promised, is gone: %v", user, err)
		}
	}
	wantErr(t, "told without a replica", s.buy(g, 31, 310), order.ErrUnavailable)
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
	must(t, syscall.Kill(pid, syscall.SIGKILL))
}

// checkLookups looks for an order that another node has, and for one that the node which hangs may have.
func checkLookups(t *testing.T, g *Gate) {
	t.Helper()
	if o, err := g.Lookup(t.Context(), 1, 11); err != nil || o.ID != 11 {
		t.Errorf("an order on another node: %+v, %v", o, err)
	}
	wantErr(t, "an order that the node which hangs may have", errOf(g.Lookup(t.Context(), 1, 12)), order.ErrUnavailable)
}
