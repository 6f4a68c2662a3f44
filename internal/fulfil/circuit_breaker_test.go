package fulfil

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
)

// node is one of the servers of a cluster.
type node struct {
	*simulate.Redis
	addr string

	mu     sync.Mutex
	frozen bool
	held   []func() // what arrived since
}

// freeze is what SIGSTOP does to a server: it accepts connections and requests, and answers them after thaw.
func (n *node) freeze() { n.mu.Lock(); n.frozen = true; n.mu.Unlock() }

func (n *node) thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, send := range n.held {
		send()
	}
	n.frozen, n.held = false, nil
}

// nodeConn is a connection to a node.
type nodeConn struct {
	net.Conn
	node *node
}

func (c *nodeConn) Write(p []byte) (int, error) {
	c.node.mu.Lock()
	defer c.node.mu.Unlock()
	if !c.node.frozen {
		return c.Conn.Write(p)
	}
	p = slices.Clone(p)
	c.node.held = append(c.node.held, func() { _, _ = c.Conn.Write(p) })
	return len(p), nil
}

// inCluster tells a story of a split voucher in virtual time, with a cluster of three servers. there are the buckets of
// the first node, and elsewhere all others.
func inCluster(t *testing.T, of sale, story func(t *testing.T, s *env, first *node, there, elsewhere []int)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { simulate.Sleep(time.Minute) }) // as in inBubble
		nodes := map[string]*node{}
		var slots []redis.ClusterSlot
		for i, addr := range []string{"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"} {
			nodes[addr] = &node{Redis: simulate.NewRedis(t), addr: addr}
			slots = append(slots, redis.ClusterSlot{Start: i * 5462, End: min(i*5462+5461, 16383), Nodes: []redis.ClusterNode{{Addr: addr}}})
		}
		options := nodes[slots[0].Nodes[0].Addr].Options()
		client := redis.NewClusterClient(&redis.ClusterOptions{
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := nodes[addr].Dial(ctx, network, addr)
				return &nodeConn{conn, nodes[addr]}, err
			},
			ContextTimeoutEnabled: true, MaxRedirects: 3, DialerRetries: 1, ReadTimeout: 2 * time.Second, PoolTimeout: 2 * time.Second,
			DisableIdentity: true, MaintNotificationsConfig: options.MaintNotificationsConfig,
		})
		t.Cleanup(func() { _ = client.Close() })
		s := openEnv(t, client, testkit.SQLite(t), of)
		first := nodes[slots[0].Nodes[0].Addr]
		var there, elsewhere []int
		for b := range s.buckets {
			home, err := client.MasterForKey(t.Context(), s.keysOf(1, b).Orders)
			if s.must(err); home.Options().Addr == first.addr {
				there = append(there, b)
			} else {
				elsewhere = append(elsewhere, b)
			}
		}
		if len(there) == 0 || len(elsewhere) == 0 {
			t.Fatalf("buckets %v on the node, and %v on others", there, elsewhere)
		}
		story(t, s, first, there, elsewhere)
	})
}

// acceptIn accepts an order of a new user in each of some buckets.
func (s *env) acceptIn(buckets ...int) {
	s.t.Helper()
	for _, bucket := range buckets {
		a := accept(1, s.ids.Add(1)) // nobody asks whether the bucket is the user's
		a.Bucket = bucket
		s.seqs[bucket]++
		a.Seq = s.seqs[bucket]
		s.must(s.admit(a))
	}
}

// A node that hangs does not stop the streams on the other nodes: not for workers that were running, and not for
// workers that start while it hangs.
func TestNodeHangs(t *testing.T) {
	inCluster(t, sale{buckets: 12, stock: 12_000}, func(t *testing.T, s *env, hangs *node, there, elsewhere []int) {
		// The fixed name lets the second process replay the pending entries of the first.
		named := func(c *Config) { c.Name, c.Block, c.DiscoverEvery = "api", 100*time.Millisecond, 500*time.Millisecond }
		_, stop := s.run(named)
		s.acceptEach(1, 40)
		s.checkFinalState()
		for range 10 {
			s.acceptIn(there...) // some of them are pending when it stops
		}
		hangs.freeze()

		goesOn := func(what string, long time.Duration) {
			t.Helper()
			for end := time.Now().Add(long); time.Now().Before(end); simulate.Sleep(300 * time.Millisecond) {
				began := time.Now()
				s.acceptIn(elsewhere...)
				s.until("the streams of the other nodes are empty", func() bool {
					var entries int64
					for _, b := range elsewhere {
						entries += s.client.XLen(t.Context(), s.keysOf(1, b).Orders).Val()
					}
					return entries == 0
				})
				if took := time.Since(began); took > 3*nodeTimeout {
					t.Errorf("%s: the entries on the other nodes took %v", what, took)
				}
			}
		}
		goesOn("running", 2*openFor)
		began := time.Now()
		stop()
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the stop took %v", took)
		}
		started, _ := s.run(named)
		goesOn("started while the node hangs", openFor)
		s.until("the voucher is listed, with the buckets of the node", func() bool {
			vouchers, complete := started.Watched()
			return complete && len(vouchers) == 1 && vouchers[0].Buckets == s.buckets
		})
		hangs.thaw()
		s.wantFinalState(0)
	})
}

// A call to many nodes takes as long as the timeout of one node, and a node that timed out is not called again at once.
func TestNodesAreCalledConcurrently(t *testing.T) {
	inCluster(t, sale{buckets: 12, stock: 1200}, func(t *testing.T, s *env, hangs *node, there, elsewhere []int) {
		in, all := newRedisStreams(s.client), streamsOf(s.prefix, contract.AdmissionVoucher{VoucherID: 1, Buckets: s.buckets})
		for _, st := range all {
			s.must(in.ensureGroup(t.Context(), st))
		}
		s.acceptIn(there...)
		s.acceptIn(elsewhere...)
		hangs.freeze()
		timeout := nodeTimeout + time.Duration(len(there))*timeoutPerStream
		took := func(call func()) time.Duration {
			began := time.Now()
			call()
			return time.Since(began)
		}
		for _, want := range []time.Duration{timeout, 0} { // called, and not called again
			var lengths map[*stream]int64
			var err error
			after := took(func() { lengths, _, err = in.backlog(t.Context(), all) })
			if err == nil || errors.Is(err, errCircuitOpen) != (want == 0) || len(lengths) != len(elsewhere) || after != want {
				t.Errorf("%d counted, %v, after %v, want %v", len(lengths), err, after, want)
			}
		}
		entries, err := in.readNew(t.Context(), "me-1", all, 10, 250*time.Millisecond, nil)
		some, ok := errors.AsType[*readError](err)
		if !ok || len(some.streams) != len(there) || len(entries) != len(elsewhere) {
			t.Fatalf("%d read, %v", len(entries), err)
		}
		for _, err := range in.acknowledge(t.Context(), byStream(entries)) {
			s.must(err)
		}
		if after := took(func() {
			for _, b := range there {
				if _, err := in.readPending(t.Context(), "me-1", all[b], "0", 10); err == nil {
					t.Errorf("bucket %d answered", b)
				}
			}
		}); after != 0 {
			t.Errorf("%d streams of a node that hangs took %v", len(there), after)
		}
	})
}

// After a timeout a single caller tests the node, and all callers use it again once it answers. A Redis that is not a
// cluster is always called.
func TestCircuitBreaker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h, asked := circuitBreaker{openUntil: map[string]time.Time{}}, 0
		call := func(ctx context.Context, node string, takes time.Duration) error {
			return h.call(ctx, node, nodeTimeout, func(ctx context.Context) error {
				asked++
				if !sleep(ctx, takes) {
					return ctx.Err()
				}
				return redis.Nil // an answer
			})
		}
		expect := func(what string, calls int, err, want error) {
			t.Helper()
			if !errors.Is(err, want) || asked != calls {
				t.Errorf("%s: %v after %d calls", what, err, asked)
			}
			asked = 0
		}
		stopped, stop := context.WithTimeout(t.Context(), nodeTimeout/2)
		expect("the caller gave up", 1, call(stopped, "a", time.Hour), context.DeadlineExceeded)
		stop()
		expect("timeout", 1, call(t.Context(), "a", time.Hour), context.DeadlineExceeded)
		expect("circuit open", 0, call(t.Context(), "a", 0), errCircuitOpen)
		expect("another node", 1, call(t.Context(), "b", 0), redis.Nil)
		simulate.Sleep(openFor)
		go func() { _ = call(t.Context(), "a", nodeTimeout/2) }()
		synctest.Wait()
		expect("another caller tests the node", 1, call(t.Context(), "a", 0), errCircuitOpen)
		simulate.Sleep(nodeTimeout)
		expect("circuit closed", 1, call(t.Context(), "a", 0), redis.Nil)
		_ = call(t.Context(), "", time.Hour)
		expect("not a cluster", 2, call(t.Context(), "", 0), redis.Nil)
	})
}
