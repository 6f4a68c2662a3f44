package zkio_test

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/zookeeper/zkio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// open returns a client of a server, through network if that is not nil. Its session outlasts the test, and the server
// may take its time.
func open(t *testing.T, addr string, network *locktest.Network) *zkio.Client {
	t.Helper()
	config := zkio.Config{Servers: []string{addr}, SessionTimeout: time.Minute, CommandTimeout: 20 * time.Second}
	if network != nil {
		config.Dial = network.Dial
	}
	client, err := zkio.Open(config)
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// session returns the first session of a client. On a busy machine the server may need longer than a command may take
// to accept it.
func session(t *testing.T, client *zkio.Client) (s *zkio.Session) {
	t.Helper()
	testkit.Until(t, "a session", func() (there bool) {
		var err error
		if s, err = client.Session(t.Context()); err != nil && !errors.Is(err, lock.ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
	return s
}

// hold creates a node and makes a lease of it. If the node is there already, an earlier attempt has created it whose
// reply was lost: nobody else uses the path.
func hold(t *testing.T, s *zkio.Session, path string) lock.Lease {
	t.Helper()
	_, uncertain, err := zkio.Do(t.Context(), s, func(c *zk.Conn) (string, error) {
		return c.Create(path, nil, zk.FlagEphemeral, zkio.ACL())
	})
	if err != nil && (!uncertain || !errors.Is(err, zk.ErrNodeExists)) {
		t.Fatal(err)
	}
	lease, err := s.Hold(t.Context(), zkio.Attempt{
		Key: "seat", Node: path, Marker: path,
		Delete: func(c *zk.Conn) error { return c.Delete(path, -1) },
		Holder: func(*zk.Conn) (zkio.Record, error) { return zkio.Record{}, zk.ErrNoNode },
	}, 1, s.Gone(path))
	fail.NowIf(t, err)
	return lease
}

func TestSilentServerIsNoProof(t *testing.T) {
	server := testkit.NewZooKeeper(t)
	client, err := zkio.Open(zkio.Config{Servers: []string{server.Addr()}, SessionTimeout: 2 * time.Second})
	fail.NowIf(t, err)
	defer client.Close()
	s := session(t, client)
	lease := hold(t, s, "/seat")
	server.Pause()
	<-lease.Lost()
	// A machine that is too slow tells the holder only when the lease is over.
	if cause := context.Cause(lease.Context()); !errors.Is(cause, lock.ErrUnavailable) && !errors.Is(cause, lock.ErrExpired) {
		t.Errorf("the holder was told %v, want ErrUnavailable", cause)
	}
	if !s.Over() {
		t.Error("the session is not over")
	}
	fail.Unless(t, fail.Of(client.Session(t.Context())), lock.ErrUnavailable, "Session")
	server.Resume()
	if err := lease.Release(t.Context()); !errors.Is(err, lock.ErrExpired) && err != nil {
		t.Errorf("Release = %v, want nil or ErrExpired", err)
	}
	if again := session(t, client); again == s {
		t.Error("a session that was over is used again")
	}
}

func TestServerThatRestartsKeepsTheSession(t *testing.T) {
	server := testkit.NewZooKeeper(t)
	lease := hold(t, session(t, open(t, server.Addr(), nil)), "/seat")
	server.Restart()
	var err error
	testkit.Until(t, "an answer of the new server", func() bool {
		err = lease.Extend(t.Context(), 0)
		return !errors.Is(err, lock.ErrUnavailable)
	})
	fail.If(t, err, "Extend: the lease is still held")
	fail.If(t, lease.Release(t.Context()))
}

func TestCloseTellsHoldersAndEndsTheSession(t *testing.T) {
	addr, path := testkit.ZooKeeper(t).Addr(), "/"+testkit.KeyPrefix(t)
	client := open(t, addr, nil)
	lease := hold(t, session(t, client), path)
	fail.If(t, client.Close())
	<-lease.Lost()
	fail.Unless(t, context.Cause(lease.Context()), lock.ErrUnavailable, "the holder")
	found, _, err := zkio.Do(t.Context(), session(t, open(t, addr, nil)), func(c *zk.Conn) (bool, error) {
		found, _, err := c.Exists(path)
		return found, err
	})
	if found || err != nil {
		t.Errorf("Exists = %v, %v, want no node: the end of the session deletes it", found, err)
	}
	fail.Unless(t, fail.Of(client.Session(t.Context())), lock.ErrUnavailable, "Session of a closed client")
}

func TestWatchIsShared(t *testing.T) {
	network := locktest.NewNetwork()
	s := session(t, open(t, testkit.ZooKeeper(t).Addr(), network))
	path := "/" + testkit.KeyPrefix(t)
	fail.Unless(t, fail.Of(s.Watch(t.Context(), path)), zk.ErrNoNode, "Watch of nothing")
	lease := hold(t, s, path)
	first, err := s.Watch(t.Context(), path)
	fail.NowIf(t, err)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			w, err := s.Watch(t.Context(), path)
			if err != nil || w.Gone != first.Gone {
				t.Errorf("Watch = %v, want the existing watch", err)
			}
		})
	}
	all.Wait()
	fail.If(t, lease.Release(t.Context()))
	<-first.Gone
}

func TestListIsSharedAndNeverOlderThanItsCall(t *testing.T) {
	const clients, rounds = 20, 10
	s := session(t, open(t, testkit.ZooKeeper(t).Addr(), nil))
	var begun atomic.Int64
	look := func(c *zk.Conn) ([]string, error) {
		n := begun.Add(1)
		_, _, err := c.Exists("/")
		return []string{strconv.FormatInt(n, 10)}, err
	}
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for range rounds {
				before := begun.Load()
				got, err := s.List(t.Context(), "/", look)
				if err != nil {
					t.Error(err)
					return
				}
				if n, err := strconv.ParseInt(got[0], 10, 64); err != nil || n <= before {
					t.Errorf("after %d requests had begun the answer was of request %s (%v)", before, got[0], err)
				}
			}
		})
	}
	all.Wait()
	if made := begun.Load(); made >= clients*rounds {
		t.Errorf("%d requests for %d calls, want shared requests", made, clients*rounds)
	}
}

func TestDriverMessagesAreLogged(t *testing.T) {
	network := locktest.NewNetwork()
	var text text
	// The driver does not dial for a session that is over: this one lasts, however busy the machine is.
	client, err := zkio.Open(zkio.Config{
		Servers: []string{testkit.ZooKeeper(t).Addr()}, SessionTimeout: time.Minute, Dial: network.Dial,
		Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	fail.NowIf(t, err)
	session(t, client)
	network.Cut()
	testkit.Until(t, "a message", func() bool { return text.has("zookeeper: failed to connect") })
	fail.If(t, client.Close())
}

type text struct {
	mu sync.Mutex
	s  strings.Builder
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.s.Write(p)
}

func (t *text) has(what string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Contains(t.s.String(), what)
}
