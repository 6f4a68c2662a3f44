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

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
	"seckill/internal/testkit"
)

// clusterClient is one as the service has it, of a cluster that goes on without a node.
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

// freeze stops the process of a node, until thaw or the end of the test.
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

// apart parts the buckets of a split voucher: those on one node, and all others.
func (s *split) apart(client *redis.ClusterClient) (node *redis.Client, there, elsewhere []int) {
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

// acceptIn has a new user's order accepted in one bucket.
func (s *split) acceptIn(bucket int) {
	s.t.Helper()
	for {
		a := accept(1, s.ids.Add(1))
		if a.Bucket = admkey.Bucket(a.UserID, s.buckets); a.Bucket == bucket {
			s.seqs[bucket]++
			a.Seq = s.seqs[bucket]
			s.must(s.admit(a))
			s.all = append(s.all, a)
			return
		}
	}
}

// A node that neither answers nor refuses keeps nobody from what is on the others:
// neither those who were at work when it began to hang, nor those who begin then.
func TestNodeHangs(t *testing.T) {
	client := clusterClient(t)
	s := openSplit(t, client, 12, 1000)
	node, there, elsewhere := s.apart(client)
	// What it has in hand when it ends is its own again when it is back.
	named := func(c *Config) { c.Name = "api" }
	_, stop := s.run(named)
	s.accept(40)
	s.atRest()
	for range 10 {
		for _, b := range there {
			s.acceptIn(b) // some of them are in hand when it stops
		}
	}
	thaw := freeze(t, node)

	goesOn := func(what string, long time.Duration) {
		t.Helper()
		for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			begun := time.Now()
			for _, b := range elsewhere {
				s.acceptIn(b)
			}
			eventually(t, "the streams of the other nodes are empty", func() bool {
				var entries int64
				for _, b := range elsewhere {
					entries += client.XLen(t.Context(), s.keys(b).Orders).Val()
				}
				return entries == 0
			})
			if took := time.Since(begun); took > 2500*time.Millisecond {
				t.Errorf("%s: what is on the other nodes took %v", what, took)
			}
		}
	}
	goesOn("at work", 2*hungFor)
	begun := time.Now()
	stop()
	if took := time.Since(begun); took > 2500*time.Millisecond {
		t.Errorf("the stop took %v", took)
	}
	s.run(named)
	goesOn("begun while it hangs", hungFor)
	thaw()
	s.atRest()
}

// What is asked of many nodes at once takes no longer than one may take, and a node that
// hung is not asked again at once.
func TestAskedSideBySide(t *testing.T) {
	client := clusterClient(t)
	s := openSplit(t, client, 12, 100)
	node, there, elsewhere := s.apart(client)
	in, all := newStreams(client), streamsOf(s.prefix, order.Sale{VoucherID: 1, Buckets: s.buckets})
	for _, st := range all {
		s.must(in.prepare(t.Context(), st))
	}
	for b := range s.buckets {
		s.acceptIn(b)
	}
	freeze(t, node)
	for n, longest := range []time.Duration{2 * patience, patience / 2} {
		begun := time.Now()
		lengths, _, err := in.lengths(t.Context(), all)
		if took := time.Since(begun); err == nil || len(lengths) != len(elsewhere) || took > longest {
			t.Errorf("%d: %d counted, %v, after %v", n, len(lengths), err, took)
		}
	}
	begun := time.Now()
	entries, err := in.fresh(t.Context(), "me-1", all, 10, 250*time.Millisecond)
	some, ok := errors.AsType[*readError](err)
	if !ok || len(some.of) != len(there) || len(entries) != len(elsewhere) || time.Since(begun) > 2*patience {
		t.Fatalf("%d read, %v, after %v", len(entries), err, time.Since(begun))
	}
	for _, err := range in.done(t.Context(), byStream(entries)) {
		s.must(err)
	}
	begun = time.Now()
	for _, b := range there {
		if _, err := in.held(t.Context(), "me-1", all[b], "0", 10); err == nil {
			t.Errorf("bucket %d answered", b)
		}
	}
	if took := time.Since(begun); took > 2*patience {
		t.Errorf("%d streams of a node that hangs took %v", len(there), took)
	}
}

// A node that hung is asked by one of those who want to know, and by all once it answers.
// The only Redis there is is asked by all, always.
func TestHungNodeIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, asked := hung{until: map[string]time.Time{}}, 0
		call := func(ctx context.Context, node string, takes time.Duration) error {
			return h.call(ctx, node, patience, func(ctx context.Context) error {
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
		stopped, stop := context.WithTimeout(t.Context(), patience/2)
		expect("the caller's end", 1, call(stopped, "a", time.Hour), context.DeadlineExceeded)
		stop()
		expect("no answer", 1, call(t.Context(), "a", time.Hour), context.DeadlineExceeded)
		expect("a moment later", 0, call(t.Context(), "a", 0), errHangs)
		expect("another node", 1, call(t.Context(), "b", 0), redis.Nil)
		time.Sleep(hungFor)
		go func() { _ = call(t.Context(), "a", patience/2) }()
		synctest.Wait()
		expect("somebody is asking", 1, call(t.Context(), "a", 0), errHangs)
		time.Sleep(patience)
		expect("it answered", 1, call(t.Context(), "a", 0), redis.Nil)
		_ = call(t.Context(), "", time.Hour)
		expect("the only one", 2, call(t.Context(), "", 0), redis.Nil)
	})
}
