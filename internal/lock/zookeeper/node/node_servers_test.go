package node_test

import (
	"encoding/json"
	"testing"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/zkstore"
	"seckill/internal/lock/zookeeper/node"
	"seckill/internal/lock/zookeeper/zkio"
)

func open(client *zkio.Client, prefix string) (zkstore.Locker, error) {
	return node.New(client, node.Config{Prefix: prefix})
}

func mechanism() zkstore.Mechanism {
	return zkstore.Mechanism{Name: "zk-node", Open: open, Remove: remove, PutWrongKind: putWrongKind}
}

func TestConformance(t *testing.T) {
	locktest.Run(t, zkstore.Factory(mechanism(), zkstore.LongSession), promises())
}

func promises() locktest.Promises {
	return zkstore.SessionLock().
		Except(locktest.Breaks("the quickest of all waiters gets the lock"), locktest.ServesInOrder,
			locktest.ServesInOrderAcrossProcesses).
		Except(locktest.Breaks("there is no queue"), locktest.QueueSurvivesPause)
}

// remove deletes the lock's node and its marker, as the end of the session does.
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

func putWrongKind(conn *zk.Conn, path string) error {
	_, err := conn.Create(path, []byte("not a lock"), zk.FlagPersistent, zkio.ACL())
	return err
}

func TestFreesLockOfDeadProcess(t *testing.T) { zkstore.FreesLockOfDeadProcess(t, mechanism()) }

func TestTellsPausedProcess(t *testing.T) { zkstore.TellsPausedProcess(t, mechanism()) }

func TestLeavesNothingAfterLostReply(t *testing.T) {
	zkstore.LeavesNothingAfterLostReply(t, mechanism())
}

func TestReleaseWakesTheHerd(t *testing.T) {
	herd := zkstore.NewHerd(t, mechanism(), 8)
	herd.Release(t)
	herd.AwaitAwake(t)
	herd.Drain(t)
}
