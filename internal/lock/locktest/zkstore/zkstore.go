// Package zkstore builds the locktest subject of a mechanism that keeps its locks
// in ZooKeeper.
package zkstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/zookeeper/zkio"
	"seckill/internal/testkit"
)

// Session is the session timeout of every process here: what a watchdog's lease is
// to other mechanisms. The server looks for the end of a session every 100 ms.
const Session = 1500 * time.Millisecond

// Locker is what a mechanism here can do.
type Locker interface {
	lock.Locker
	lock.Inspector
	lock.Breaker
}

// Open makes a mechanism's locker on a client, with its nodes below prefix.
type Open func(client *zkio.Client, prefix string) (Locker, error)

// Mechanism says how to look at a mechanism from outside.
type Mechanism struct {
	Name string
	Open Open
	// Remove takes a lock from its holder, by hand: node is the one that is the
	// lock's below the mechanism's path.
	Remove func(conn *zk.Conn, node string) error
	// Spoil puts something in the lock's place.
	Spoil func(conn *zk.Conn, node string) error
}

// Place is how long the node of a waiter that has died stays at most.
const Place = Session + 300*time.Millisecond

// Factory makes subjects on the test binary's shared server, each below a path of
// its own.
func Factory(m Mechanism) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		s := subject(tb, m, testkit.ZooKeeper(tb))
		s.Alone = func(tb testing.TB) locktest.Subject {
			server := testkit.NewZooKeeper(tb)
			s := subject(tb, m, server)
			s.Store.Pause = func(_ context.Context, d time.Duration) error {
				server.Pause()
				time.AfterFunc(d, server.Resume)
				return nil
			}
			return s
		}
		s.Store.Pause = func(context.Context, time.Duration) error {
			return errors.New("the shared server must not be paused")
		}
		return s
	}
}

func subject(tb testing.TB, m Mechanism, server *testkit.ZooKeeperServer) locktest.Subject {
	v := &view{Mechanism: m, conn: server.Conn(tb, Session), prefix: "/" + testkit.KeyPrefix(tb)}
	looks := Process(tb, m.Open, server.Addr(), v.prefix, nil)
	return locktest.Subject{
		Name: m.Name, Remote: true, Renewed: Session, Place: Place,
		Process: func(tb testing.TB, line *locktest.Line) lock.Locker {
			return Process(tb, m.Open, server.Addr(), v.prefix, line)
		},
		Store: locktest.Store{
			TTL: func(ctx context.Context, key string) (time.Duration, error) {
				state, err := looks.Inspect(ctx, key)
				return state.TTL, err
			},
			Remove: v.on(m.Remove), Spoil: v.on(m.Spoil), Left: v.left,
		},
	}
}

// Process opens a client and a locker, as a process has them. line may be nil.
func Process(tb testing.TB, open Open, addr, prefix string, line *locktest.Line) Locker {
	tb.Helper()
	config := zkio.Config{Servers: []string{addr}, SessionTimeout: Session, CommandTimeout: Session / 3}
	if line != nil {
		config.Dial = line.Dial
	}
	client, err := zkio.Open(config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	locker, err := open(client, prefix)
	if err != nil {
		tb.Fatal(err)
	}
	return locker
}

// view looks at the nodes below one path.
type view struct {
	Mechanism
	conn   *zk.Conn
	prefix string
}

func (v *view) base() string { return zkio.Path(v.prefix, v.Name) }

func (v *view) on(do func(*zk.Conn, string) error) func(context.Context, string) error {
	return func(_ context.Context, key string) error {
		for path := v.prefix; ; path = v.base() { // a lock is spoiled before there ever was one
			_, err := v.conn.Create(path, nil, zk.FlagPersistent, zkio.ACL())
			if err != nil && !errors.Is(err, zk.ErrNodeExists) {
				return err
			}
			if path == v.base() {
				err := do(v.conn, path+"/"+zkio.Name(key))
				if errors.Is(err, zk.ErrNoNode) {
					return nil // there was nothing to remove
				}
				return err
			}
		}
	}
}

func (v *view) left(context.Context) ([]string, error) { return Below(v.conn, v.base()) }

// Below lists all nodes below a path.
func Below(conn *zk.Conn, path string) ([]string, error) {
	names, _, err := conn.Children(path)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []string
	for _, name := range names {
		found = append(found, path+"/"+name)
		below, err := Below(conn, path+"/"+name)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	return found, nil
}
