package zkio_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
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

func TestReconnectionRenewsLeases(t *testing.T) {
	network := locktest.NewNetwork()
	s := session(t, open(t, testkit.ZooKeeper(t).Addr(), network))
	lease := hold(t, s, "/"+testkit.KeyPrefix(t))
	network.Cut()
	began := lease.Remaining()
	testkit.Until(t, "a second to pass", func() bool { return lease.Remaining() <= began-time.Second })
	before := lease.Remaining()
	network.Restore()
	if err := exists(s, "/")(); err != nil { // long before the first ping
		t.Fatal(err)
	}
	if after := lease.Remaining(); after <= before {
		t.Errorf("Remaining = %v after the reconnection, want more than the %v before", after, before)
	}
}

// openThrough returns a client whose connections are wrapped.
func openThrough(t *testing.T, wrap func(net.Conn) net.Conn) *zkio.Client {
	t.Helper()
	client, err := zkio.Open(zkio.Config{
		Servers: []string{testkit.ZooKeeper(t).Addr()}, SessionTimeout: time.Minute,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return wrap(conn), err
		},
	})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// closing runs call before the request that ends the session is sent.
type closing struct {
	net.Conn
	call func()
}

func (c closing) Write(p []byte) (int, error) {
	const opClose = -11
	if len(p) >= 12 && int32(binary.BigEndian.Uint32(p[8:])) == opClose {
		c.call()
	}
	return c.Conn.Write(p)
}

func TestHolderIsToldBeforeTheServer(t *testing.T) {
	const children = 100_000 // contexts derived from the lease's, so that telling the holder takes a while
	var lease lock.Lease
	var closed, untold atomic.Int64
	check := func() {
		closed.Add(1)
		select {
		case <-lease.Lost():
		default:
			untold.Add(1)
		}
	}
	client := openThrough(t, func(conn net.Conn) net.Conn { return closing{conn, check} })
	s := session(t, client)
	var err error
	lease, err = s.Hold(t.Context(), zkio.Attempt{Key: "seat"}, 1, s.Done())
	fail.NowIf(t, err)
	for range children {
		_, cancel := context.WithCancel(lease.Context())
		defer cancel()
	}
	fail.If(t, client.Close())
	if closed.Load() != 1 || untold.Load() != 0 {
		t.Errorf("the server was told %d times, %d of them before the holder; want once, after the holder", closed.Load(),
			untold.Load())
	}
}

// unanswered swallows the requests for a node's data and announces them.
type unanswered struct {
	net.Conn
	asked func()
}

func (c unanswered) Write(p []byte) (int, error) {
	const opGetData = 4
	if len(p) >= 12 && binary.BigEndian.Uint32(p[8:]) == opGetData {
		c.asked()
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// If the session ends while a watch is being set, that is no end of the caller's context.
func TestWatchOfSessionThatEnds(t *testing.T) {
	asked := make(chan struct{})
	client := openThrough(t, func(conn net.Conn) net.Conn { return unanswered{conn, sync.OnceFunc(func() { close(asked) })} })
	s := session(t, client)
	watched := make(chan error, 1)
	go func() {
		_, err := s.Watch(t.Context(), "/")
		watched <- err
	}()
	<-asked
	fail.If(t, client.Close())
	if err := <-watched; !errors.Is(err, lock.ErrUnavailable) || errors.Is(err, context.Canceled) {
		t.Errorf("Watch = %v, want ErrUnavailable", err)
	}
}

// errThrottled is the driver's error for an error code that it does not know.
var errThrottled = errors.New("unknown error: -127")

func TestPausesBetweenRepetitions(t *testing.T) {
	client := open(t, testkit.ZooKeeper(t).Addr(), nil)
	s := session(t, client)
	var calls atomic.Int64
	refused := func(*zk.Conn) (struct{}, error) { calls.Add(1); return struct{}{}, errThrottled }

	began := time.Now()
	_, uncertain, err := zkio.Do(t.Context(), s, refused)
	if took := time.Since(began); !uncertain || !errors.Is(err, lock.ErrUnavailable) || took < 300*time.Millisecond {
		t.Errorf("Do = %v, %v after %v, want ErrUnavailable after 310 ms", uncertain, err, took)
	}

	ctx, cancel := context.WithCancel(t.Context())
	calls.Store(0)
	_, _, err = zkio.Do(ctx, s, func(c *zk.Conn) (struct{}, error) { defer cancel(); return refused(c) })
	if !errors.Is(err, context.Canceled) || calls.Load() != 1 {
		t.Errorf("Do = %v after %d requests, want it to end with its context", err, calls.Load())
	}

	calls.Store(0)
	began = time.Now()
	s.DeleteEventually(func(c *zk.Conn) error { _, err := refused(c); return err })
	testkit.Until(t, "repetitions in the background", func() bool { return calls.Load() >= 3 })
	if n := calls.Load(); n > 20 && time.Since(began) < 500*time.Millisecond {
		t.Errorf("DeleteEventually made %d requests in %v, want pauses", n, time.Since(began))
	}
}

func TestDeletesNodesOnPanic(t *testing.T) {
	s := session(t, open(t, testkit.ZooKeeper(t).Addr(), nil))
	path := "/" + testkit.KeyPrefix(t)
	faults, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic}}, nil)
	fail.NowIf(t, err)
	_, _, err = zkio.Do(t.Context(), s, func(c *zk.Conn) (string, error) {
		return c.Create(path, nil, zk.FlagEphemeral, zkio.ACL())
	})
	fail.NowIf(t, err)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the fault was not injected")
			}
		}()
		_, _ = s.Hold(lock.WithFaults(t.Context(), faults), zkio.Attempt{
			Key: "seat", Node: path, Marker: path,
			Delete: func(c *zk.Conn) error { return c.Delete(path, -1) },
		}, 1, s.Gone(path))
	}()
	found, _, err := zkio.Do(t.Context(), s, func(c *zk.Conn) (bool, error) {
		found, _, err := c.Exists(path)
		return found, err
	})
	if found || err != nil {
		t.Errorf("Exists = %v, %v, want no node", found, err)
	}
}
