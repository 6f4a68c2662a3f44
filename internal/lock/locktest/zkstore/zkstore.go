// Package zkstore builds the locktest subject of a mechanism that keeps its locks in ZooKeeper.
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

// Session is the session timeout in tests that wait for its end. It corresponds to the watchdog's lease of other
// mechanisms. The server checks for expired sessions every 100 ms.
const Session = 1500 * time.Millisecond

// LongSession is for tests that do not wait for its end. A process that was cut off may need as long to be back.
const LongSession = 20 * time.Second

// Locker is the interface of a ZooKeeper mechanism.
type Locker interface {
	lock.Locker
	lock.Inspector
	lock.ForceReleaser
}

// Open makes a mechanism's locker on a client, with its nodes below prefix.
type Open func(client *zkio.Client, prefix string) (Locker, error)

// Mechanism describes a mechanism to the suite.
type Mechanism struct {
	Name string
	Open Open
	// Remove takes a lock from its holder. node is the path of the lock's node.
	Remove func(conn *zk.Conn, node string) error
	// PutWrongKind creates something else at the lock's node.
	PutWrongKind func(conn *zk.Conn, node string) error
}

// Factory makes subjects on the test binary's shared server, each below its own path. Their sessions last this long.
func Factory(m Mechanism, session time.Duration) locktest.Factory {
	return func(tb testing.TB) locktest.Subject {
		s := subject(tb, m, testkit.ZooKeeper(tb), session)
		s.Dedicated = func(tb testing.TB) locktest.Subject {
			server := testkit.NewZooKeeper(tb)
			s := subject(tb, m, server, session)
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

func subject(tb testing.TB, m Mechanism, server *testkit.ZooKeeperServer, session time.Duration) locktest.Subject {
	v := &view{Mechanism: m, conn: server.Conn(tb, LongSession), prefix: "/" + testkit.KeyPrefix(tb)}
	looks := Process(tb, m.Open, server.Addr(), v.prefix, LongSession, nil)
	return locktest.Subject{
		Name: m.Name, Remote: true, Renewed: session, DeadWaiterTimeout: session + 300*time.Millisecond,
		Process: func(tb testing.TB, network *locktest.Network) lock.Locker {
			return Process(tb, m.Open, server.Addr(), v.prefix, session, network)
		},
		Store: locktest.Store{
			TTL: func(ctx context.Context, key string) (time.Duration, error) {
				state, err := looks.Inspect(ctx, key)
				return state.TTL, err
			},
			Remove: v.on(m.Remove), PutWrongKind: v.on(m.PutWrongKind), Leftovers: v.leftovers,
		},
	}
}

// SessionLock returns the promises of a lock whose nodes are deleted with the holder's session.
func SessionLock() locktest.Promises {
	return locktest.AllHold().
		Except(locktest.Breaks("an owner waits for itself"), locktest.Reenters, locktest.LinearizableReentrant).
		Except(locktest.NotApplicable("no re-entry"), locktest.ReentryKeepsLease, locktest.InnerDoesNotShorten, locktest.TokenStaysOnReentry)
}

// Process opens a client and a locker, as a process does. network may be nil.
func Process(tb testing.TB, open Open, addr, prefix string, session time.Duration, network *locktest.Network) Locker {
	tb.Helper()
	config := zkio.Config{Servers: []string{addr}, SessionTimeout: session, CommandTimeout: min(session/3, 5*time.Second)}
	if network != nil {
		config.Dial = network.Dial
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

// view reads the nodes below one path.
type view struct {
	Mechanism
	conn   *zk.Conn
	prefix string
}

func (v *view) base() string { return zkio.Path(v.prefix, v.Name) }

func (v *view) on(do func(*zk.Conn, string) error) func(context.Context, string) error {
	return func(_ context.Context, key string) error {
		for path := v.prefix; ; path = v.base() { // PutWrongKind may come before the first lock
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

func (v *view) leftovers(context.Context) ([]string, error) { return Below(v.conn, v.base()) }

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
