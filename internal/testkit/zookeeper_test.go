package testkit_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/testkit"
)

func TestSharedZooKeeperServesEveryTest(t *testing.T) {
	first, second := testkit.ZooKeeper(t), testkit.ZooKeeper(t)
	if first.Addr() != second.Addr() {
		t.Errorf("two servers, %s and %s, want one", first.Addr(), second.Addr())
	}
	path := "/" + testkit.KeyPrefix(t)
	if _, err := first.Conn(t, 30*time.Second).Create(path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if found, _, err := second.Conn(t, 30*time.Second).Exists(path); !found || err != nil {
		t.Errorf("Exists = %v, %v, want what the other connection created", found, err)
	}
}

func TestMissingZooKeeperSkipsUnlessInfrastructureIsRequired(t *testing.T) {
	testkit.Servers(t)
	for _, tc := range []struct {
		require string
		want    string
		fails   bool
	}{
		{"", "--- SKIP: TestSharedZooKeeperServesEveryTest", false},
		{"1", "--- FAIL: TestSharedZooKeeperServesEveryTest", true},
	} {
		out, err := runChild("TestSharedZooKeeperServesEveryTest", "SECKILL_TEST_ZOOKEEPER=/nowhere", "REQUIRE_INFRA="+tc.require)
		if !strings.Contains(out, tc.want) || !strings.Contains(out, "not found on PATH") || (err != nil) != tc.fails {
			t.Errorf("REQUIRE_INFRA=%q: the child ended with %v, want %q; it printed:\n%s", tc.require, err, tc.want, out)
		}
	}
}

func TestZooKeeperKeepsItsDataAndSessionsAfterAKill(t *testing.T) {
	server := testkit.NewZooKeeper(t)
	dead := server.Conn(t, 5*time.Second)
	for path, mode := range map[string]int32{"/kept": zk.FlagPersistent, "/goes": zk.FlagEphemeral} {
		if _, err := dead.Create(path, nil, mode, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	server.Kill()
	dead.Close()
	server.Restart()
	conn := server.Conn(t, 30*time.Second)
	if found, _, err := conn.Exists("/kept"); !found || err != nil {
		t.Errorf("Exists = %v, %v, want what was written before the kill", found, err)
	}
	testkit.Until(t, "the ephemeral node to go with its session", func() bool {
		found, _, err := conn.Exists("/goes")
		return err == nil && !found
	})
}

func TestPausedZooKeeperAnswersAfterResume(t *testing.T) {
	server := testkit.NewZooKeeper(t)
	conn := server.Conn(t, 30*time.Second)
	server.Pause()
	answered := make(chan error, 1)
	go func() {
		_, _, err := conn.Exists("/")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a paused server answered (%v)", err)
	case <-time.After(200 * time.Millisecond):
	}
	server.Resume()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestZooKeeperLeavesNoFolder(t *testing.T) {
	var dir string
	t.Run("server", func(t *testing.T) {
		dir = testkit.NewZooKeeper(t).Dir()
		if _, err := os.Stat(dir); err != nil {
			t.Error(err)
		}
	})
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder %s is still there (%v)", dir, err)
	}
}
