package zkio_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/zookeeper/zkio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func exists(s *zkio.Session, path string) func() error {
	return func() error {
		_, _, err := zkio.Do(context.Background(), s, func(c *zk.Conn) (bool, error) {
			found, _, err := c.Exists(path)
			return found, err
		})
		return err
	}
}

// This test needs the race detector: the driver alone has a race between the replies to requests and the watches that
// it sets again.
func TestReconnectsUnderLoad(t *testing.T) {
	const reconnections, clients = 20, 4
	network := locktest.NewNetwork()
	s := session(t, open(t, testkit.ZooKeeper(t).Addr(), network))
	path := "/" + testkit.KeyPrefix(t)
	lease := hold(t, s, path)
	watched, err := s.Watch(t.Context(), path)
	fail.NowIf(t, err)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ask := exists(s, path); ; {
				select {
				case <-stop:
					return
				default:
					_ = ask() // may fail without a connection
				}
			}
		})
	}
	for range reconnections {
		network.Cut()
		network.Restore()
		testkit.Until(t, "an answer after a reconnection", func() bool {
			err := exists(s, path)()
			late := errors.Is(err, lock.ErrUnavailable) // a busy machine may take longer than CommandTimeout to connect
			if err != nil && !late {
				t.Errorf("after a reconnection: %v", err)
			}
			return !late
		})
	}
	close(stop)
	all.Wait()
	select {
	case <-watched.Gone:
		t.Error("the watch fired, though the node is there")
	default:
	}
	fail.If(t, lease.Release(t.Context()))
	<-watched.Gone // the watch survived the reconnections
}

// A watch is set again from the newest zxid that the client has seen. Only later changes fire it.
func TestWatchIsSetAgainFromTheNewestZxid(t *testing.T) {
	server, network := testkit.ZooKeeper(t), locktest.NewNetwork()
	said := &frames{}
	client, err := zkio.Open(zkio.Config{
		Servers: []string{server.Addr()}, SessionTimeout: time.Minute,
		Dial: func(ctx context.Context, transport, addr string) (net.Conn, error) {
			conn, err := network.Dial(ctx, transport, addr)
			return &recorded{Conn: conn, to: said}, err
		},
	})
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = client.Close() })
	s, other := session(t, client), server.Conn(t, time.Minute)
	stays, goes := "/"+testkit.KeyPrefix(t), "/"+testkit.KeyPrefix(t)+"-goes"
	var watched []zkio.Watch
	for _, path := range []string{stays, goes} {
		fail.NowIf(t, fail.Of(other.Create(path, nil, zk.FlagPersistent, zkio.ACL())))
		w, err := s.Watch(t.Context(), path)
		fail.NowIf(t, err)
		watched = append(watched, w)
	}
	seen := uint64(watched[1].Stat.Czxid)
	network.Cut()
	fail.NowIf(t, other.Delete(goes, -1))
	said.clear()
	network.Restore()
	<-watched[1].Gone // the node was deleted during the outage
	fail.If(t, exists(s, stays)())
	greeting, set, got := said.zxids()
	if greeting < seen || set < seen {
		t.Errorf("the client sent zxid %d in the greeting and %d for the watches, want at least %d", greeting, set, seen)
	}
	if got > 0 {
		t.Errorf("%d watches were set by a read: a watch fired that should not have", got)
	}
}

// frames are the frames sent on all connections.
type frames struct {
	mu  sync.Mutex
	all [][]byte
}

func (f *frames) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = nil
}

// zxids returns the zxids of the greeting, which is the first frame, and of the request that sets watches. got counts
// the requests for a node's data.
func (f *frames) zxids() (greeting, set uint64, got int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, frame := range f.all {
		opcode := binary.BigEndian.Uint32(frame[8:])
		switch {
		case i == 0:
			greeting = binary.BigEndian.Uint64(frame[8:])
		case opcode == 101:
			set = binary.BigEndian.Uint64(frame[12:])
		case opcode == 4:
			got++
		}
	}
	return greeting, set, got
}

type recorded struct {
	net.Conn
	to *frames
}

func (r *recorded) Write(p []byte) (int, error) {
	r.to.mu.Lock()
	r.to.all = append(r.to.all, slices.Clone(p))
	r.to.mu.Unlock()
	return r.Conn.Write(p)
}
