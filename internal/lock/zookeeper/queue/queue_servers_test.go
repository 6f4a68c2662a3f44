package queue_test

import (
	"context"
	"errors"
	"fmt"
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
	"seckill/internal/testkit/fail"
)

func open(client *zkio.Client, prefix string) (zkstore.Locker, error) {
	return queue.New(client, queue.Config{Prefix: prefix})
}

func mechanism() zkstore.Mechanism {
	return zkstore.Mechanism{Name: "zk-queue", Open: open, Remove: remove, PutWrongKind: putWrongKind}
}

func TestConformance(t *testing.T) {
	locktest.Run(t, zkstore.Factory(mechanism(), zkstore.LongSession), zkstore.SessionLock())
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

func putWrongKind(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, nil, zk.FlagPersistent, zkio.ACL())
	if err == nil {
		_, err = conn.Create(path+"/stranger", nil, zk.FlagPersistent, zkio.ACL())
	}
	return err
}

func TestFreesLockOfDeadProcess(t *testing.T) { zkstore.FreesLockOfDeadProcess(t, mechanism()) }

func TestTellsPausedProcess(t *testing.T) { zkstore.TellsPausedProcess(t, mechanism()) }

func TestLeavesNothingAfterLostReply(t *testing.T) {
	zkstore.LeavesNothingAfterLostReply(t, mechanism())
}

// Each process wakes once, when it is its turn, and lists the queue once.
func TestReleaseWakesOne(t *testing.T) {
	for i, requests := range zkstore.NewHerd(t, mechanism(), 8).Drain(t) {
		fail.Unequal(t, requests, 1, "requests of process %d", i)
	}
}

// A node that is in the queue for a moment could make another try fail.
func TestRefusedTryNeverEntersTheQueue(t *testing.T) {
	t.Parallel()
	server, prefix := testkit.ZooKeeper(t), "/"+testkit.KeyPrefix(t)
	conn := server.Conn(t, zkstore.LongSession)
	held, err := zkstore.Process(t, open, server.Addr(), prefix, zkstore.LongSession, nil).Acquire(t.Context(), "seat", lock.Options{})
	fail.NowIf(t, err)
	var before *zk.Stat
	for range 2 {
		_, now, err := conn.Exists(zkio.Path(prefix, "zk-queue") + "/seat")
		fail.NowIf(t, err)
		if before != nil && (now.Cversion != before.Cversion || now.Pzxid != before.Pzxid) {
			t.Errorf("a refused try changed the queue: %+v became %+v", before, now)
		}
		before = now
		_, err = zkstore.Process(t, open, server.Addr(), prefix, zkstore.LongSession, nil).Acquire(t.Context(), "seat", lock.Options{})
		if taken, ok := errors.AsType[*lock.NotAcquiredError](err); !ok || taken.Holder != held.Owner() {
			t.Errorf("a try gave %v, want a NotAcquiredError that names %s", err, held.Owner())
		}
	}
	fail.If(t, held.Release(t.Context()))
}

// The waiter behind a dead waiter is woken and must not mistake the death for a release.
func TestDeathOfWaiterAdmitsNobody(t *testing.T) {
	t.Parallel()
	server, prefix := testkit.ZooKeeper(t), "/"+testkit.KeyPrefix(t)
	process := func() zkstore.Locker {
		return zkstore.Process(t, open, server.Addr(), prefix, zkstore.LongSession, nil)
	}
	looks := process()
	queued := func(n int) {
		t.Helper()
		testkit.Until(t, fmt.Sprintf("%d in the queue", n), func() bool {
			state, err := looks.Inspect(t.Context(), "seat")
			return err == nil && state.Waiting == n && len(state.Queue) == n
		})
	}
	held, err := process().Acquire(t.Context(), "seat", lock.Options{})
	fail.NowIf(t, err)
	network := locktest.NewNetwork()
	ctx, cancel := context.WithCancel(t.Context())
	middle := locktest.InBackground(ctx, zkstore.Process(t, open, server.Addr(), prefix, zkstore.Session, network), "seat", lock.Options{Wait: time.Hour})
	queued(1)
	behind := process()
	last := locktest.InBackground(t.Context(), behind, "seat", lock.Options{Wait: time.Hour})
	queued(2)

	network.Cut() // its session ends
	queued(1)
	// The connection of the last waiter has brought it the news before the answer to this, and it has had the time of a
	// hundred round trips to be wrong.
	for range 100 {
		_, err := behind.Inspect(t.Context(), "seat")
		fail.NowIf(t, err)
	}
	select {
	case r := <-last:
		t.Fatalf("the waiter behind a dead one got %v, %v while the lock was held", r.Lease, r.Err)
	default:
	}
	fail.If(t, held.Release(t.Context()))
	r := <-last
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	if r.Lease.Token() <= held.Token() {
		t.Errorf("token %d after %d", r.Lease.Token(), held.Token())
	}
	fail.If(t, r.Lease.Release(t.Context()))
	cancel()
	if r := <-middle; r.Err == nil {
		t.Error("a waiter without a server got the lock")
	}
}
