package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	key   = "seat"
	lease = 30 * time.Second
	short = 300 * time.Millisecond // the NodeTimeout of the tests
)

// name of the key on every node.
var name = redisio.Key("", "test", key, "")

// nodes are three servers in this process.
type nodes []*simulate.Redis

// forBoth runs a test in virtual time for all of three nodes, as multi needs, and for a majority of them, as red does.
func forBoth(t *testing.T, test func(t *testing.T, servers nodes, need int)) {
	t.Helper()
	for _, need := range []int{2, 3} {
		t.Run(fmt.Sprintf("%d of 3", need), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				test(t, nodes{simulate.NewRedis(t), simulate.NewRedis(t), simulate.NewRedis(t)}, need)
			})
		})
	}
}

func addr(i int) string { return fmt.Sprintf("127.0.0.1:%d", i+1) }

// process returns a locker with connections of its own, like a process of its own.
func process(t *testing.T, servers nodes, need int, config quorum.Config) *quorum.Locker {
	t.Helper()
	if config.NodeTimeout == 0 {
		config.NodeTimeout = short
	}
	var clients []quorum.Client
	for i, s := range servers {
		options := s.Options()
		options.Addr = addr(i)
		client := redis.NewClient(options)
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	l, err := quorum.New("test", need, clients, config)
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func acquire(t *testing.T, l lock.Locker, opts lock.Options) lock.Lease {
	t.Helper()
	held, err := l.Acquire(t.Context(), key, opts)
	fail.NowIf(t, err)
	return held
}

func mustBeRefused(t *testing.T, l lock.Locker, when string, want error) {
	t.Helper()
	fail.Unless(t, fail.Of(l.Acquire(t.Context(), key, lock.Options{TTL: lease})), want, "Acquire %s", when)
}

func (n nodes) mustHave(t *testing.T, when string, want ...bool) {
	t.Helper()
	var has []bool
	for _, s := range n {
		has = append(has, s.Mini().Exists(name))
	}
	if !slices.Equal(has, want) {
		t.Errorf("%s the nodes that have the key are %v, want %v", when, has, want)
	}
}

// put takes the key on a node for another holder.
func (n nodes) put(t *testing.T, i int) {
	t.Helper()
	fail.NowIf(t, n[i].Mini().Set(name, "x#somebody"))
	n[i].Mini().SetTTL(name, time.Hour)
}

func TestRefusalReleasesTheRest(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		taken := slices.Repeat([]bool{false}, 3)
		for i := range 4 - need { // one too many
			servers.put(t, i)
			taken[i] = true
		}
		_, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease})
		if refused, ok := errors.AsType[*lock.NotAcquiredError](err); !ok || refused.Holder != "somebody" {
			t.Errorf("Acquire with nodes taken = %v, want NotAcquiredError with somebody", err)
		}
		servers.mustHave(t, "after the refusal", taken...)
		for i := range 4 - need {
			servers[i].Mini().Del(name)
			servers[i].Stop()
		}
		_, err = l.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: time.Minute})
		if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), addr(0)) {
			t.Errorf("Acquire with nodes down = %v, want ErrUnavailable that names %s", err, addr(0))
		}
		servers.mustHave(t, "after nodes were down", false, false, false)
		for i := range 4 - need {
			servers[i].Start()
		}
		fail.If(t, acquire(t, l, lock.Options{TTL: lease}).Release(t.Context()), "Release after the nodes came back")
	})
}

func TestFailedReleaseDoesNotStopTheOthers(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		held := acquire(t, l, lock.Options{TTL: lease})
		servers[0].Stop()
		err := held.Release(t.Context())
		if unknown := errors.Is(err, lock.ErrUnavailable); unknown != (need == 3) || !unknown && err != nil {
			t.Errorf("Release with a node down = %v", err)
		}
		servers[1:].mustHave(t, "after the release", false, false)
	})
}

func TestPartOfTheNodesLost(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		for _, c := range []struct {
			lost  int
			taken bool
			want  error
		}{{1, false, nil}, {2, false, lock.ErrExpired}, {2, true, lock.ErrLost}, {3, true, lock.ErrLost}} {
			if need == 3 && c.lost < 3 {
				c.want = lock.ErrExpired // no other holder has all nodes
			}
			held := acquire(t, l, lock.Options{TTL: lease})
			for i, s := range servers[:c.lost] {
				if c.taken {
					servers.put(t, i)
				} else {
					s.Mini().Del(name)
				}
			}
			if err := held.Release(t.Context()); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
				t.Errorf("Release after %d nodes were lost, taken: %v, = %v, want %v", c.lost, c.taken, err, c.want)
			}
			servers[c.lost:].mustHave(t, "after the release", make([]bool, 3-c.lost)...)
			fail.NowIf(t, fail.Of(l.ForceRelease(t.Context(), key)))
		}
	})
}

// A node that hangs costs an operation its timeout: two where an acquisition has to be undone.
func TestHangingNodeCostsNodeTimeout(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		servers[0].Pause(time.Hour)
		began := time.Now()
		held, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease})
		if took := time.Since(began); took > 2*short {
			t.Errorf("an acquisition beside a hanging node took %v", took)
		}
		if need == 3 && !errors.Is(err, lock.ErrUnavailable) || need == 2 && err != nil {
			t.Fatalf("Acquire beside a hanging node = %v", err)
		}
		if err == nil {
			began = time.Now()
			fail.If(t, held.Release(t.Context()), "Release beside a hanging node")
			if took := time.Since(began); took > short {
				t.Errorf("a release beside a hanging node took %v", took)
			}
		}
		servers[0].Resume()
		simulate.Sleep(lock.ReleaseTimeout)
		servers.mustHave(t, "after the node woke up", false, false, false)
	})
}

func TestWaitLimitIsForTheWhole(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		servers.put(t, 1)
		servers.put(t, 2)
		servers[0].Pause(time.Hour)
		const wait = 10 * time.Second
		began := time.Now()
		_, err := l.Acquire(t.Context(), key, lock.Options{TTL: lease, Wait: wait})
		if took := time.Since(began); took < wait || took > wait+4*short { // the last attempt: acquire, ask who holds it, undo
			t.Errorf("asked to wait %v it waited %v", wait, took)
		}
		fail.Unless(t, err, lock.ErrNotAcquired, "Acquire")
	})
}

func TestLateGrantIsNone(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{NodeTimeout: time.Second})
		for _, s := range servers {
			s.Pause(500 * time.Millisecond) // longer than the lease, which it then grants
		}
		_, err := l.Acquire(t.Context(), key, lock.Options{TTL: 50 * time.Millisecond})
		if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "validity") {
			t.Errorf("Acquire that took longer than its lease = %v, want ErrUnavailable", err)
		}
		_, err = l.Acquire(t.Context(), key, lock.Options{TTL: 2 * time.Millisecond})
		fail.Unless(t, err, lock.ErrInvalid, "Acquire of a lease that is all drift")
		// What is left of a lease is what the nodes have, less the time that passed, less the drift.
		held := acquire(t, l, lock.Options{TTL: 10 * time.Second})
		if left := held.Remaining(); left > 10*time.Second-100*time.Millisecond-2*time.Millisecond {
			t.Errorf("of 10 s the holder counts on %v: clocks drift by 1 %% and 2 ms", left)
		}
		simulate.Sleep(10*time.Second - held.Remaining()/50)
	})
}

// The holder is told before its lease can have run out.
func TestRenewalNeedsTheQuorum(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		l := process(t, servers, need, quorum.Config{})
		held := acquire(t, l, lock.Options{})
		down := servers[:4-need]
		for _, s := range down[:len(down)-1] {
			s.Stop()
		}
		simulate.Sleep(3 * lease) // many renewals
		fail.If(t, held.Extend(t.Context(), 0), "Extend with %d of 3 nodes down", len(down)-1)
		down[len(down)-1].Stop() // one too many
		began := time.Now()
		<-held.Lost()
		if took := time.Since(began); took >= lease {
			t.Errorf("the holder was told %v after the quorum was lost, later than its lease of %v", took, lease)
		}
		fail.Unless(t, context.Cause(held.Context()), lock.ErrUnavailable, "the holder")
	})
}

func TestInspect(t *testing.T) {
	forBoth(t, func(t *testing.T, servers nodes, need int) {
		if need == 3 {
			return // what is read is the state of a majority
		}
		l := process(t, servers, need, quorum.Config{})
		held := acquire(t, l, lock.Options{TTL: lease})
		servers[1].Mini().SetTTL(name, 5*time.Second)
		servers[2].Stop()
		state, err := l.Inspect(t.Context(), key)
		if err != nil || state.Owner != held.Owner() || state.TTL != 5*time.Second {
			t.Errorf("Inspect = %+v, %v, want %s for 5 s", state, err, held.Owner())
		}
		all := l.InspectNodes(t.Context(), key)
		if all[0].Owner != held.Owner() || all[0].Node != addr(0) || !errors.Is(all[2].Err, lock.ErrUnavailable) {
			t.Errorf("InspectNodes = %+v", all)
		}
		if there, err := l.ForceRelease(t.Context(), key); !there || err != nil {
			t.Errorf("ForceRelease with a node down = %v, %v, want true", there, err)
		}
		servers[1].Stop()
		fail.Unless(t, fail.Of(l.Inspect(t.Context(), key)), lock.ErrUnavailable, "Inspect with one node of three")
		fail.Unless(t, fail.Of(l.ForceRelease(t.Context(), key)), lock.ErrUnavailable, "ForceRelease with one node of three")
	})
}
