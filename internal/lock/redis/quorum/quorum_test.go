package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	key   = "seat"
	lease = 30 * time.Second
	// short is the NodeTimeout of tests with a silent node; patience that of tests in
	// which all nodes answer, however busy the machine is.
	short    = 300 * time.Millisecond
	patience = time.Second
	// slack is how late a busy machine may be.
	slack = 350 * time.Millisecond
)

// name of the key on every node.
var name = redisio.Key("", "test", key, "")

// process returns a locker with connections of its own, like a process of its own.
func process(t *testing.T, servers []*testkit.RedisServer, need int, config quorum.Config) *quorum.Locker {
	t.Helper()
	var clients []quorum.Client
	for _, c := range nodestore.DialAll(t, servers, nil) {
		clients = append(clients, c)
	}
	l, err := quorum.New("test", need, clients, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func acquire(t *testing.T, l lock.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, opts)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// acquireOnAll acquires the lock on all nodes. A quorum is enough for a lease: on a busy machine one of the others may
// answer too late.
func acquireOnAll(t *testing.T, l lock.Locker, servers []*testkit.RedisServer, opts lock.Options) (held lock.Lease) {
	t.Helper()
	testkit.Until(t, "a lease on all nodes", func() bool {
		held = acquire(t, l, opts)
		if !slices.Contains(nodestore.Has(t, servers, name), false) {
			return true
		}
		if err := held.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		return false
	})
	return held
}

func mustHave(t *testing.T, servers []*testkit.RedisServer, when string, want ...bool) {
	t.Helper()
	if has := nodestore.Has(t, servers, name); !slices.Equal(has, want) {
		t.Errorf("%s the nodes that have the key are %v, want %v", when, has, want)
	}
}

// put takes the key on a node for another holder.
func put(t *testing.T, server *testkit.RedisServer) {
	t.Helper()
	if err := server.Client(t).Set(t.Context(), name, "x#somebody", time.Minute).Err(); err != nil {
		t.Fatal(err)
	}
}

// forBoth runs a test for all of three nodes and for a majority of them.
func forBoth(t *testing.T, test func(t *testing.T, need int)) {
	for _, need := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d of 3", need), func(t *testing.T) {
			t.Parallel()
			test(t, need)
		})
	}
}

func TestOneOfTenWins(t *testing.T) {
	forBoth(t, func(t *testing.T, need int) {
		servers := nodestore.Start(t, 3)
		contenders := make([]*quorum.Locker, 10)
		for i := range contenders {
			contenders[i] = process(t, servers, need, quorum.Config{NodeTimeout: patience})
		}
		for n := range 30 {
			leases := make([]lock.Lease, len(contenders))
			start := make(chan struct{})
			var all sync.WaitGroup
			for i, l := range contenders {
				all.Go(func() {
					<-start
					held, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease})
					if err != nil && !errors.Is(err, lock.ErrNotAcquired) {
						t.Errorf("round %d: %v", n, err)
					}
					leases[i] = held
				})
			}
			close(start)
			all.Wait()
			winners := slices.DeleteFunc(leases, func(l lock.Lease) bool { return l == nil })
			if len(winners) != 1 {
				t.Fatalf("round %d has %d winners, want 1", n, len(winners))
			}
			if err := winners[0].Release(t.Context()); err != nil {
				t.Error(err)
			}
			mustHave(t, servers, "after a round", false, false, false)
		}
	})
}

func TestRefusalReleasesTheRest(t *testing.T) {
	servers := nodestore.Start(t, 3)
	l := process(t, servers, 3, quorum.Config{NodeTimeout: patience})
	put(t, servers[1])
	_, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease})
	taken, ok := errors.AsType[*lock.NotAcquiredError](err)
	if !ok || taken.Holder != "somebody" {
		t.Errorf("Acquire with a node taken = %v, want NotAcquiredError with somebody", err)
	}
	mustHave(t, servers, "after the refusal", false, true, false)

	servers[1].Kill()
	_, err = l.Acquire(t.Context(), key, lock.Options{TTL: lease})
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), servers[1].Addr()) {
		t.Errorf("Acquire with a node down = %v, want ErrUnavailable that names %s", err, servers[1].Addr())
	}
	mustHave(t, servers, "after a node was down", false, false, false)
}

func TestFailedReleaseDoesNotStopTheOthers(t *testing.T) {
	forBoth(t, func(t *testing.T, need int) {
		servers := nodestore.Start(t, 3)
		l := process(t, servers, need, quorum.Config{NodeTimeout: patience})
		held := acquire(t, l, lock.Options{TTL: lease})
		servers[0].Kill()
		err := held.Release(t.Context())
		if unknown := errors.Is(err, lock.ErrUnavailable); unknown != (need == 3) || !unknown && err != nil {
			t.Errorf("Release with a node down = %v", err)
		}
		mustHave(t, servers, "after the release", false, false, false)
	})
}

func TestPartOfTheNodesLost(t *testing.T) {
	forBoth(t, func(t *testing.T, need int) {
		servers := nodestore.Start(t, 3)
		l := process(t, servers, need, quorum.Config{NodeTimeout: patience})
		for _, c := range []struct {
			lost  int
			taken bool
			want  error
		}{{1, false, nil}, {2, false, lock.ErrExpired}, {2, true, lock.ErrLost}, {3, true, lock.ErrLost}} {
			if need == 3 && c.lost < 3 {
				c.want = lock.ErrExpired // no other holder has all nodes
			}
			held := acquire(t, l, lock.Options{TTL: lease})
			for _, s := range servers[:c.lost] {
				if c.taken {
					put(t, s)
				} else if err := s.Client(t).Del(t.Context(), name).Err(); err != nil {
					t.Fatal(err)
				}
			}
			if err := held.Release(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Release after %d nodes were lost, taken: %v, = %v, want %v", c.lost, c.taken, err, c.want)
			}
			mustHave(t, servers[c.lost:], "after the release", make([]bool, 3-c.lost)...)
			if _, err := l.ForceRelease(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestHangingNodeCostsNodeTimeout(t *testing.T) {
	forBoth(t, func(t *testing.T, need int) {
		servers := nodestore.Start(t, 3)
		l := process(t, servers, need, quorum.Config{NodeTimeout: short})
		if err := acquire(t, l, lock.Options{TTL: lease}).Release(t.Context()); err != nil { // opens the connections
			t.Fatal(err)
		}
		servers[0].Pause()
		watch := testkit.StartStopwatch()
		held, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease})
		if took, limit := watch.Stop(), 2*short+slack; took > limit { // one to acquire, one to release
			t.Errorf("an acquisition beside a hanging node took %v, at most %v", took, limit)
		}
		if need == 3 && !errors.Is(err, lock.ErrUnavailable) || need == 2 && err != nil {
			t.Fatalf("Acquire beside a hanging node = %v", err)
		}
		if err == nil {
			watch = testkit.StartStopwatch()
			if err := held.Release(t.Context()); err != nil {
				t.Errorf("Release beside a hanging node = %v", err)
			}
			if took, limit := watch.Stop(), short+slack; took > limit {
				t.Errorf("a release beside a hanging node took %v, at most %v", took, limit)
			}
		}
		servers[0].Resume()
		testkit.Until(t, "the node that woke up to be cleaned", func() bool {
			return !slices.Contains(nodestore.Has(t, servers, name), true)
		})
	})
}

func TestWaitLimitIsForTheWhole(t *testing.T) {
	servers := nodestore.Start(t, 3)
	l := process(t, servers, 2, quorum.Config{NodeTimeout: short})
	put(t, servers[1])
	put(t, servers[2])
	servers[0].Pause()
	const wait = 500 * time.Millisecond
	began, watch := time.Now(), testkit.StartStopwatch()
	_, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: wait})
	if took, ran, limit := time.Since(began), watch.Stop(), wait+3*short+slack; took < wait || ran > limit {
		t.Errorf("asked to wait %v it waited %v, of which it ran %v, at most %v", wait, took, ran, limit)
	}
	if !errors.Is(err, lock.ErrNotAcquired) {
		t.Errorf("Acquire = %v, want ErrNotAcquired", err)
	}
	servers[0].Resume()
}

func TestLateGrantIsNone(t *testing.T) {
	servers := nodestore.Start(t, 3)
	l := process(t, servers, 2, quorum.Config{NodeTimeout: patience})
	// All nodes sleep longer than the lease, and then grant it.
	for _, s := range servers {
		if err := s.Client(t).Do(t.Context(), "CLIENT", "PAUSE", 500, "ALL").Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.Acquire(t.Context(), key, lock.Options{TTL: 50 * time.Millisecond})
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "validity") {
		t.Errorf("Acquire that took longer than its lease = %v, want ErrUnavailable", err)
	}
	_, err = l.Acquire(t.Context(), key, lock.Options{TTL: 2 * time.Millisecond})
	if !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("Acquire of a lease that is all drift = %v, want ErrInvalid", err)
	}
}

func TestRenewalNeedsTheQuorum(t *testing.T) {
	forBoth(t, func(t *testing.T, need int) {
		servers := nodestore.Start(t, 3)
		const renewed = 2 * time.Second
		l := process(t, servers, need, quorum.Config{NodeTimeout: patience, WatchdogTimeout: renewed})
		held := acquireOnAll(t, l, servers, lock.Options{})
		down := servers[:4-need]
		for _, s := range down[:len(down)-1] {
			s.Kill()
		}
		if err := held.Extend(t.Context(), 0); err != nil {
			t.Errorf("Extend with %d of 3 nodes down = %v", len(down)-1, err)
		}
		watch := testkit.StartStopwatch()
		down[len(down)-1].Kill() // one too many
		select {
		case <-held.Lost():
		case <-time.After(time.Minute):
			t.Fatal("the holder was not told")
		}
		if took := watch.Stop(); took > renewed {
			t.Errorf("the holder was told %v after the quorum was lost, later than its lease of %v", took, renewed)
		}
		if cause := context.Cause(held.Context()); !errors.Is(cause, lock.ErrUnavailable) {
			t.Errorf("the holder was told %v, want ErrUnavailable", cause)
		}
	})
}

func TestInspect(t *testing.T) {
	servers := nodestore.Start(t, 3)
	l := process(t, servers, 2, quorum.Config{NodeTimeout: patience})
	held := acquireOnAll(t, l, servers, lock.Options{TTL: lease})
	if err := servers[1].Client(t).PExpire(t.Context(), name, 5*time.Second).Err(); err != nil {
		t.Fatal(err)
	}
	servers[2].Kill()
	state, err := l.Inspect(t.Context(), key)
	if err != nil || state.Owner != held.Owner() || state.TTL > 5*time.Second || state.TTL <= 0 {
		t.Errorf("Inspect = %+v, %v, want %s for at most 5 s", state, err, held.Owner())
	}
	nodes := l.InspectNodes(t.Context(), key)
	if nodes[0].Owner != held.Owner() || nodes[0].Node != servers[0].Addr() || !errors.Is(nodes[2].Err, lock.ErrUnavailable) {
		t.Errorf("InspectNodes = %+v", nodes)
	}
	if there, err := l.ForceRelease(t.Context(), key); !there || err != nil {
		t.Errorf("ForceRelease with a node down = %v, %v, want true", there, err)
	}
	servers[1].Kill()
	if _, err := l.Inspect(t.Context(), key); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("Inspect with one node of three = %v, want ErrUnavailable", err)
	}
	if _, err := l.ForceRelease(t.Context(), key); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("ForceRelease with one node of three = %v, want ErrUnavailable", err)
	}
}
