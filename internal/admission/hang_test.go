package admission

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/lock/local"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// Rebalancing waits for a bucket whose node hangs only at intervals, not each time. The voucher is not
// reported as sold out before that bucket answers.
func TestRebalancingSkipsABucketThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newSplitBubble(t, testBuckets, 64, nil)
		b.fake.buckets[3].hangs = true
		begun, readings := time.Now(), b.fake.readings.Load()
		for n := range 64 {
			if err := b.buy(t.Context(), of(1+n%2, n)); err != nil {
				t.Fatalf("order %d: %v", n, err)
			}
		}
		if n := b.fake.readings.Load() - readings; n < 5 {
			t.Errorf("%d transfers: this proves nothing", n)
		}
		if took := time.Since(begun); took > b.config.AttemptTimeout/4+300*time.Millisecond {
			t.Errorf("64 orders took %v", took)
		}
		if err := b.buy(t.Context(), of(1, 70)); !errors.Is(err, order.ErrUnavailable) {
			t.Errorf("while the stock of the bucket is unknown: %v", err)
		}
		b.fake.buckets[3].hangs = false
		if err := b.buy(t.Context(), of(1, 70)); !errors.Is(err, voucher.ErrSoldOut) {
			t.Errorf("when it answers again: %v", err)
		}
		_ = b.Close()
	})
}

// hangingNode is a node that has every voucher but one, and does not answer.
type hangingNode struct {
	buckets
	answers  ledger.Keys // of the voucher on another node
	answered time.Time   // when that was read

	mu          sync.Mutex
	asked, most int // how many wait, and how many have waited at once
}

func (n *hangingNode) States(ctx context.Context, buckets []ledger.Keys) []ledger.State {
	if buckets[0] == n.answers {
		n.answered = time.Now()
		return n.buckets.States(ctx, buckets)
	}
	n.wait(1)
	defer n.wait(-1)
	<-ctx.Done()
	return []ledger.State{{Err: ctx.Err(), Heard: time.Now()}}
}

func (n *hangingNode) wait(more int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked += more
	n.most = max(n.most, n.asked)
}

// sameForAll is a database in which every voucher is as the one.
type sameForAll struct{ *store }

func (s sameForAll) EpochState(ctx context.Context, _ int64) (order.EpochState, error) {
	return s.store.EpochState(ctx, s.voucher.ID)
}

// A hundred vouchers are on a node that hangs. The checks of all take no longer than a few of them, and so many at
// once is the most.
func TestCheckWhileANodeHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sh := newStore(5)
		node := &hangingNode{buckets: newFakeLedger(sh, 5), answers: ledger.KeysOf("", sh.voucher.ID, 0)}
		g := newGate(Config{Store: sameForAll{sh}, Locker: local.New(), Log: slog.New(slog.DiscardHandler)}.WithDefaults(), node)
		if err := g.Open(t.Context(), &sh.voucher); err != nil {
			t.Fatal(err)
		}
		for n := range int64(100) {
			hanging := sh.voucher
			hanging.ID += n + 1
			g.voucher(&hanging)
		}
		for range 10 { // the order of the vouchers is random
			begun := time.Now()
			g.Check(t.Context())
			if took := time.Since(begun); took > 4*storeTimeout {
				t.Errorf("the checks took %v", took)
			}
			if node.answered.Before(begun) {
				t.Error("the voucher on the other node was not checked")
			}
		}
		if node.most > checksAtOnce {
			t.Errorf("%d at once", node.most)
		}
		if n := len(g.all()); n != 101 {
			t.Errorf("the gate knows %d vouchers, want 101", n)
		}
		_ = g.Close()
	})
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
		if err := dial(t, at(addr)).ConfigSet(t.Context(), "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	return &hung{fixture: s, cluster: client}
}

func (h *hung) node(keys ledger.Keys) *redis.Client {
	h.t.Helper()
	node, err := h.cluster.MasterForKey(context.Background(), keys.Meta)
	if err != nil {
		h.t.Fatal(err)
	}
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
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}

// One node of a cluster hangs. Buyers of buckets on other nodes get the whole stock of those nodes.
func TestRebalancingWhileANodeHangs(t *testing.T) {
	t.Parallel()
	const buckets = 6
	h := newHung(t, 60, buckets)
	g := h.gate(func(c *Config) { c.AttemptTimeout = 2 * time.Second; c.DecisionTimeout = 10 * time.Second })
	if err := g.Open(t.Context(), &h.store.voucher); err != nil {
		t.Fatal(err)
	}
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
	begun := time.Now()
	for _, user := range users {
		if err := h.buy(g, user, 100+user); err != nil {
			t.Fatalf("%v, when %d are in reach", err, reachable)
		}
	}
	t.Logf("%d sold in %v", reachable, time.Since(begun))
}

// A lookup does not depend on a node that has only other vouchers.
func TestLookupWhileANodeHangs(t *testing.T) {
	t.Parallel()
	h := newHung(t, 10, 1)
	g := h.gate(func(c *Config) { c.AttemptTimeout, c.DecisionTimeout = 2*time.Second, 10*time.Second })
	if err := h.buy(g, 1, 11); err != nil {
		t.Fatal(err)
	}
	other := h.store.voucher.ID + 1
	for h.node(ledger.KeysOf(h.config.Prefix, other, 0)) == h.node(h.keys) {
		other++
	}
	h.store.others = []order.AdmissionVoucher{{VoucherID: other, Buckets: 1, Epoch: 2}}
	h.stop(ledger.KeysOf(h.config.Prefix, other, 0))
	checkLookups(t, g, 3*g.config.AttemptTimeout)
}

// checkLookups looks for an order that another node has, and for one that the node which hangs may have. For the second
// one it waits for longest.
func checkLookups(t *testing.T, g *Gate, longest time.Duration) {
	t.Helper()
	watch := testkit.StartStopwatch()
	if o, err := g.Lookup(t.Context(), 1, 11); err != nil || o.ID != 11 {
		t.Errorf("an order on another node: %+v, %v", o, err)
	}
	if took := watch.Stop(); took > g.config.AttemptTimeout {
		t.Errorf("it took %v", took)
	}
	watch = testkit.StartStopwatch()
	if _, err := g.Lookup(t.Context(), 1, 12); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("an order that the node which hangs may have: %v", err)
	}
	if took := watch.Stop(); took > longest {
		t.Errorf("it took %v, more than %v", took, longest)
	}
}
