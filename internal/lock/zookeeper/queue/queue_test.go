package queue_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/zkstore"
	"seckill/internal/lock/zookeeper/queue"
	"seckill/internal/lock/zookeeper/zkio"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { zkstore.Main(m, open) }

func open(client *zkio.Client, prefix string) (zkstore.Locker, error) {
	return queue.New(client, queue.Config{Prefix: prefix})
}

func mechanism() zkstore.Mechanism {
	return zkstore.Mechanism{Name: "zk-queue", Open: open, Remove: remove, Spoil: spoil}
}

func TestConformance(t *testing.T) {
	promises := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		promises[b] = locktest.Holds()
	}
	promises[locktest.Reenters] = locktest.Breaks("an owner stands in line behind itself")
	promises[locktest.ReentryKeepsLease] = locktest.NotApplicable("no re-entry")
	promises[locktest.TokenStaysOnReentry] = locktest.NotApplicable("no re-entry")
	promises[locktest.LinearizableReentrant] = locktest.Breaks("an owner stands in line behind itself")
	locktest.Run(t, zkstore.Factory(mechanism()), promises)
}

// remove deletes the holder's node.
func remove(conn *zk.Conn, path string) error {
	names, _, err := conn.Children(path)
	if err != nil || len(names) == 0 {
		return err
	}
	number := func(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }
	first := slices.MinFunc(names, func(a, b string) int { return strings.Compare(number(a), number(b)) })
	return conn.Delete(path+"/"+first, -1)
}

func spoil(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, nil, zk.FlagPersistent, zkio.ACL())
	if err == nil {
		_, err = conn.Create(path+"/stranger", nil, zk.FlagPersistent, zkio.ACL())
	}
	return err
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := queue.New(nil, queue.Config{}); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "zk-queue") {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

func TestFreesLockOfDeadProcess(t *testing.T) { zkstore.FreesLockOfDeadProcess(t, mechanism()) }

func TestTellsPausedProcess(t *testing.T) { zkstore.TellsPausedProcess(t, mechanism()) }

func TestCountsLeaseFromGrant(t *testing.T) { zkstore.CountsLeaseFromGrant(t, mechanism()) }

func TestLeavesNothingAfterLostReply(t *testing.T) {
	zkstore.LeavesNothingAfterLostReply(t, mechanism())
}

func TestReleaseWakesOne(t *testing.T) {
	awake, requests := zkstore.Herd(t, mechanism(), 8)
	if awake != 1 || requests != 1 {
		t.Errorf("%d processes woke and made %d requests, want one that looks whether it is the first", awake, requests)
	}
}

// A node that stands in the queue for a moment would be in the way of another try.
func TestRefusedTryNeverStandsInTheQueue(t *testing.T) {
	t.Parallel()
	server, prefix := testkit.ZooKeeper(t), "/"+testkit.KeyPrefix(t)
	conn := server.Conn(t, zkstore.Session)
	held, err := zkstore.Process(t, open, server.Addr(), prefix, nil).Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before *zk.Stat
	for range 2 {
		_, now, err := conn.Exists(zkio.Path(prefix, "zk-queue") + "/seat")
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && (now.Cversion != before.Cversion || now.Pzxid != before.Pzxid) {
			t.Errorf("a try that was refused changed the queue: %+v became %+v", before, now)
		}
		before = now
		_, err = zkstore.Process(t, open, server.Addr(), prefix, nil).Acquire(t.Context(), "seat", lock.Options{})
		if taken, ok := errors.AsType[*lock.NotAcquiredError](err); !ok || taken.Holder != held.Owner() {
			t.Errorf("a try gave %v, want that %s holds it", err, held.Owner())
		}
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
}

// The one who waits behind it is woken, and must not take it for a release.
func TestDeathOfWaiterAdmitsNobody(t *testing.T) {
	t.Parallel()
	server, prefix := testkit.ZooKeeper(t), "/"+testkit.KeyPrefix(t)
	process := func(line *locktest.Line) zkstore.Locker {
		return zkstore.Process(t, open, server.Addr(), prefix, line)
	}
	looks := process(nil)
	queued := func(n int) {
		t.Helper()
		for limit := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			state, err := looks.Inspect(t.Context(), "seat")
			if err == nil && state.Waiting == n && len(state.Queue) == n {
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("Inspect = %+v, %v; waited in vain for %d in the queue", state, err, n)
			}
		}
	}
	held, err := process(nil).Acquire(t.Context(), "seat", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	line := locktest.NewLine()
	ctx, cancel := context.WithCancel(t.Context())
	middle := lock.Async(ctx, process(line), "seat", lock.Options{Wait: time.Minute})
	queued(1)
	last := lock.Async(t.Context(), process(nil), "seat", lock.Options{Wait: time.Minute})
	queued(2)

	line.Cut() // and its session ends
	queued(1)
	select {
	case r := <-last:
		t.Fatalf("the successor of a dead waiter got %v, %v while the holder lives", r.Lease, r.Err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	r := <-last
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Lease.Token() <= held.Token() {
		t.Errorf("token %d after %d", r.Lease.Token(), held.Token())
	}
	if err := r.Lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if r := <-middle; r.Err == nil {
		t.Error("a waiter without a server got in")
	}
}
