//go:build unix

package fulfil

import (
	"context"
	"errors"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// clusterClient returns a client with the service's options, for a cluster that keeps serving
// without all nodes.
func clusterClient(t *testing.T) *redis.ClusterClient {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: testkit.RedisCluster(t), ContextTimeoutEnabled: true, MaxRedirects: 3,
		DialTimeout: 2 * time.Second, ReadTimeout: 2 * time.Second, WriteTimeout: 2 * time.Second, PoolTimeout: 2 * time.Second, DialerRetries: 1,
	})
	t.Cleanup(func() { _ = client.Close() })
	err := client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
		return node.ConfigSet(ctx, "cluster-require-full-coverage", "no").Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// freeze stops the process of a node until thaw is called, or until the end of the test.
func freeze(t *testing.T, node *redis.Client) (thaw func()) {
	t.Helper()
	pid, err := strconv.Atoi(node.InfoMap(t.Context(), "server").Item("Server", "process_id"))
	if err != nil || pid < 2 {
		t.Fatalf("process %d: %v", pid, err)
	}
	thaw = func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	t.Cleanup(thaw)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return thaw
}

// splitByNode returns one node, its buckets, and the buckets of all other nodes.
func (s *splitEnv) splitByNode(client *redis.ClusterClient) (node *redis.Client, there, elsewhere []int) {
	s.t.Helper()
	for b := range s.buckets {
		home, err := client.MasterForKey(s.t.Context(), s.keys(b).Orders)
		s.must(err)
		if node == nil {
			node = home
		}
		if home.Options().Addr == node.Options().Addr {
			there = append(there, b)
		} else {
			elsewhere = append(elsewhere, b)
		}
	}
	if len(elsewhere) == 0 {
		s.t.Fatal("all buckets are on one node")
	}
	return node, there, elsewhere
}

// acceptIn accepts an order of a new user in one bucket.
func (s *splitEnv) acceptIn(bucket int) {
	s.t.Helper()
	for {
		a := accept(1, s.ids.Add(1))
		if a.Bucket = ledger.BucketOf(a.UserID, s.buckets); a.Bucket == bucket {
			s.seqs[bucket]++
			a.Seq = s.seqs[bucket]
			s.must(s.admit(a))
			s.all = append(s.all, a)
			return
		}
	}
}

// A node that hangs does not stop the streams on the other nodes: not for workers that were
// running, and not for workers that start while it hangs.
func TestNodeHangs(t *testing.T) {
	t.Parallel()
	client := clusterClient(t)
	s := openSplitEnv(t, client, 12, 1000)
	node, there, elsewhere := s.splitByNode(client)
	// The fixed name lets the second process replay the pending entries of the first.
	named := func(c *Config) { c.Name = "api" }
	_, stop := s.run(named)
	s.accept(40)
	s.checkFinalState()
	for range 10 {
		for _, b := range there {
			s.acceptIn(b) // some of them are pending when it stops
		}
	}
	thaw := freeze(t, node)

	goesOn := func(what string, long time.Duration) {
		t.Helper()
		for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			watch := testkit.StartStopwatch()
			for _, b := range elsewhere {
				s.acceptIn(b)
			}
			testkit.Until(t, "the streams of the other nodes are empty", func() bool {
				var entries int64
				for _, b := range elsewhere {
					entries += client.XLen(t.Context(), s.keys(b).Orders).Val()
				}
				return entries == 0
			})
			if took := watch.Stop(); took > 2500*time.Millisecond {
				t.Errorf("%s: the entries on the other nodes took %v", what, took)
			}
		}
	}
	goesOn("running", 2*openFor)
	watch := testkit.StartStopwatch()
	stop()
	if took := watch.Stop(); took > 2500*time.Millisecond {
		t.Errorf("the stop took %v", took)
	}
	started, _ := s.run(named)
	goesOn("started while the node hangs", openFor)
	testkit.Until(t, "the voucher is listed, with the buckets of the node", func() bool {
		vouchers, complete := started.Watched()
		return complete && len(vouchers) == 1 && vouchers[0].Buckets == s.buckets
	})
	thaw()
	s.checkFinalState()
}

// A call to many nodes takes no longer than the timeout of one node, and a node that timed out
// is not called again at once.
func TestNodesAreCalledConcurrently(t *testing.T) {
	t.Parallel()
	client := clusterClient(t)
	s := openSplitEnv(t, client, 12, 100)
	node, there, elsewhere := s.splitByNode(client)
	in, all := newRedisStreams(client), streamsOf(s.prefix, order.AdmissionVoucher{VoucherID: 1, Buckets: s.buckets})
	for _, st := range all {
		s.must(in.ensureGroup(t.Context(), st))
	}
	for b := range s.buckets {
		s.acceptIn(b)
	}
	freeze(t, node)
	for n, called := range []bool{true, false} {
		watch := testkit.StartStopwatch()
		lengths, _, err := in.backlog(t.Context(), all)
		if took := watch.Stop(); err == nil || errors.Is(err, errCircuitOpen) == called || len(lengths) != len(elsewhere) || took > 2*nodeTimeout {
			t.Errorf("%d: %d counted, %v, after %v", n, len(lengths), err, took)
		}
	}
	watch := testkit.StartStopwatch()
	entries, err := in.readNew(t.Context(), "me-1", all, 10, 250*time.Millisecond)
	took := watch.Stop()
	some, ok := errors.AsType[*readError](err)
	if !ok || len(some.streams) != len(there) || len(entries) != len(elsewhere) || took > 2*nodeTimeout {
		t.Fatalf("%d read, %v, after %v", len(entries), err, took)
	}
	for _, err := range in.acknowledge(t.Context(), byStream(entries)) {
		s.must(err)
	}
	watch = testkit.StartStopwatch()
	for _, b := range there {
		if _, err := in.readPending(t.Context(), "me-1", all[b], "0", 10); err == nil {
			t.Errorf("bucket %d answered", b)
		}
	}
	if took := watch.Stop(); took > 2*nodeTimeout {
		t.Errorf("%d streams of a node that hangs took %v", len(there), took)
	}
}

// After a timeout a single caller tests the node, and all callers use it again once it answers.
// A Redis that is not a cluster is always called.
func TestCircuitBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
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
		time.Sleep(openFor)
		go func() { _ = call(t.Context(), "a", nodeTimeout/2) }()
		synctest.Wait()
		expect("another caller tests the node", 1, call(t.Context(), "a", 0), errCircuitOpen)
		time.Sleep(nodeTimeout)
		expect("circuit closed", 1, call(t.Context(), "a", 0), redis.Nil)
		_ = call(t.Context(), "", time.Hour)
		expect("not a cluster", 2, call(t.Context(), "", 0), redis.Nil)
	})
}
