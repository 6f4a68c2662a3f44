package node_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/zkstore"
	"seckill/internal/lock/zookeeper/node"
	"seckill/internal/lock/zookeeper/zkio"
)

func TestMain(m *testing.M) { zkstore.Main(m, open) }

func open(client *zkio.Client, prefix string) (zkstore.Locker, error) {
	return node.New(client, node.Config{Prefix: prefix})
}

func mechanism() zkstore.Mechanism {
	return zkstore.Mechanism{Name: "zk-node", Open: open, Remove: remove, Spoil: spoil}
}

func TestConformance(t *testing.T) {
	promises := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		promises[b] = locktest.Holds()
	}
	promises[locktest.ServesInOrder] = locktest.Breaks("of all who wake the quickest gets in")
	promises[locktest.Reenters] = locktest.Breaks("an owner waits for itself")
	promises[locktest.ReentryKeepsLease] = locktest.NotApplicable("no re-entry")
	promises[locktest.TokenStaysOnReentry] = locktest.NotApplicable("no re-entry")
	promises[locktest.LinearizableReentrant] = locktest.Breaks("an owner waits for itself")
	promises[locktest.ServesInOrderAcrossProcesses] = locktest.Breaks("of all who wake the quickest gets in")
	promises[locktest.QueueSurvivesPause] = locktest.Breaks("there is no queue")
	locktest.Run(t, zkstore.Factory(mechanism()), promises)
}

// remove deletes what a session's end deletes: the lock's node and its proof.
func remove(conn *zk.Conn, path string) error {
	data, _, err := conn.Get(path)
	if err != nil {
		return err
	}
	var holder struct{ ID string }
	if err := json.Unmarshal(data, &holder); err != nil {
		return err
	}
	_, err = conn.Multi(
		&zk.DeleteRequest{Path: path, Version: -1},
		&zk.DeleteRequest{Path: path + "!" + holder.ID, Version: -1},
	)
	return err
}

func spoil(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, []byte("not a lock"), zk.FlagPersistent, zkio.ACL())
	return err
}

func TestNewNeedsClient(t *testing.T) {
	if _, err := node.New(nil, node.Config{}); !errors.Is(err, lock.ErrInvalid) || !strings.Contains(err.Error(), "zk-node") {
		t.Errorf("New(nil) = %v, want ErrInvalid", err)
	}
}

func TestFreesLockOfDeadProcess(t *testing.T) { zkstore.FreesLockOfDeadProcess(t, mechanism()) }

func TestTellsPausedProcess(t *testing.T) { zkstore.TellsPausedProcess(t, mechanism()) }

func TestCountsLeaseFromGrant(t *testing.T) { zkstore.CountsLeaseFromGrant(t, mechanism()) }

func TestLeavesNothingAfterLostReply(t *testing.T) {
	zkstore.LeavesNothingAfterLostReply(t, mechanism())
}

func TestReleaseWakesTheHerd(t *testing.T) {
	const waiting = 8
	awake, requests := zkstore.Herd(t, mechanism(), waiting)
	if awake != waiting || requests < 2*waiting-1 {
		t.Errorf("%d processes woke and made %d requests, want all of %d: to try, and to watch again", awake, requests, waiting)
	}
}
