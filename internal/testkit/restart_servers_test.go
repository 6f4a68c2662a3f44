package testkit_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// server is what every server of one test can do.
type server interface {
	Addr() string
	Kill()
	Restart()
	Pause()
	Resume()
}

// store is a server and what a client does with it.
type store struct {
	server
	keeps bool // what was written before a kill
	write func() error
	has   func() (bool, error) // what was written
}

// A server that is killed is back at its address, with what it promises to keep; a paused one answers when it goes on;
// and at the end of its test neither its process nor its folder is left.
func TestServersAreKilledAndPaused(t *testing.T) {
	for name, start := range map[string]func(*testing.T) (s store, folder string){
		"redis-server": redisStore(false), "redis-server with a file": redisStore(true, "--appendonly", "yes", "--appendfsync", "always"),
		"MariaDB": sqlStore(testkit.NewMariaDB), "MySQL": sqlStore(testkit.NewMySQL), "ZooKeeper": zooKeeperStore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var folder string
			t.Run("server", func(t *testing.T) {
				var s store
				s, folder = start(t)
				if err := s.write(); err != nil {
					t.Fatal(err)
				}
				addr := s.Addr()
				s.Kill()
				if _, err := s.has(); err == nil {
					t.Error("a killed server answers")
				}
				s.Restart()
				var found bool
				testkit.Until(t, "the client is connected again", func() bool {
					var err error
					found, err = s.has()
					return err == nil
				})
				if found != s.keeps || s.Addr() != addr {
					t.Errorf("after the restart at %s (before: %s) it has it: %v, want %v", s.Addr(), addr, found, s.keeps)
				}
				s.Pause()
				answered := make(chan error, 1)
				go func() {
					_, err := s.has()
					answered <- err
				}()
				select {
				case err := <-answered:
					t.Errorf("a paused server answered (%v)", err)
				case <-time.After(200 * time.Millisecond):
				}
				s.Resume()
				if err := <-answered; err != nil {
					t.Error(err)
				}
			})
			if folder != "" && !t.Skipped() {
				waitRemoved(t, folder)
			}
		})
	}
}

func redisStore(keeps bool, args ...string) func(*testing.T) (store, string) {
	return func(t *testing.T) (store, string) {
		s := testkit.NewRedis(t, args...)
		client := s.Client(t)
		return store{s, keeps, func() error { return client.Set(t.Context(), "k", 1, 0).Err() }, func() (bool, error) {
			err := client.Get(t.Context(), "k").Err()
			if errors.Is(err, redis.Nil) {
				return false, nil
			}
			return err == nil, err
		}}, s.Dir()
	}
}

func sqlStore(start func(testkit.TB, ...string) *testkit.SQLServer) func(*testing.T) (store, string) {
	return func(t *testing.T) (store, string) {
		s := start(t, "--innodb-lock-wait-timeout=1")
		db := open(t, s.Database(t))
		if got := query(t, db, "SELECT @@innodb_lock_wait_timeout"); got != "1" {
			t.Errorf("innodb_lock_wait_timeout is %s, want the 1 of the flag", got)
		}
		exec(t, db, "CREATE TABLE kept (id INT PRIMARY KEY)")
		return store{s, true, func() error { _, err := db.Exec("INSERT INTO kept VALUES (42)"); return err }, func() (bool, error) {
			err := db.QueryRow("SELECT id FROM kept").Scan(new(int))
			if errors.Is(err, sql.ErrNoRows) {
				return false, nil
			}
			return err == nil, err
		}}, ""
	}
}

func zooKeeperStore(t *testing.T) (store, string) {
	s := testkit.NewZooKeeper(t)
	conn := s.Conn(t, 30*time.Second)
	return store{s, true, func() error {
		_, err := conn.Create("/kept", nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll))
		return err
	}, func() (bool, error) {
		found, _, err := conn.Exists("/kept")
		return found, err
	}}, s.Dir()
}

// The sessions of a server that was killed go on: an ephemeral node goes with its own, and with nothing else.
func TestZooKeeperKeepsItsSessionsAfterAKill(t *testing.T) {
	server := testkit.NewZooKeeper(t)
	dead := server.Conn(t, 5*time.Second)
	if _, err := dead.Create("/goes", nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	dead.Close()
	server.Restart()
	conn := server.Conn(t, 30*time.Second)
	testkit.Until(t, "the ephemeral node to go with its session", func() bool {
		found, _, err := conn.Exists("/goes")
		return err == nil && !found
	})
}

// Tests share a server, and are told apart by their keys.
func TestSharedServers(t *testing.T) {
	if first, second := testkit.Redis(t), testkit.Redis(t); first.Addr() != second.Addr() {
		t.Errorf("two servers, %s and %s, want one", first.Addr(), second.Addr())
	}
	first, second := testkit.ZooKeeper(t), testkit.ZooKeeper(t)
	path := "/" + testkit.KeyPrefix(t)
	if _, err := first.Conn(t, 30*time.Second).Create(path, nil, zk.FlagPersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if found, _, err := second.Conn(t, 30*time.Second).Exists(path); !found || err != nil {
		t.Errorf("Exists = %v, %v, want what the other connection created", found, err)
	}
}
