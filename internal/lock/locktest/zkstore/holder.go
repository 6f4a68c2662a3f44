package zkstore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/zookeeper/zkio"
	"seckill/internal/testkit"
)

const key = "seat"

// What tells a copy of the test binary that it is a holder, and of what.
const (
	holderAddr   = "ZKSTORE_HOLDER_ADDR"
	holderPrefix = "ZKSTORE_HOLDER_PREFIX"
)

// Main runs the tests of a mechanism, or is a process that holds a lock for them.
func Main(m *testing.M, open Open) {
	if addr := os.Getenv(holderAddr); addr != "" {
		if err := hold(open, addr, os.Getenv(holderPrefix)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// What these tests do most of the time is to wait for the end of a session.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	testkit.Main(m)
}

// hold takes the lock, says what becomes of it, and closes its client on SIGTERM.
func hold(open Open, addr, prefix string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	client, err := zkio.Open(zkio.Config{Servers: []string{addr}, SessionTimeout: Session})
	if err != nil {
		return err
	}
	locker, err := open(client, prefix)
	if err != nil {
		return err
	}
	lease, err := locker.Acquire(context.WithoutCancel(ctx), key, lock.Options{Wait: time.Minute})
	if err != nil {
		return err
	}
	fmt.Println("holds with token", lease.Token())
	select {
	case <-ctx.Done():
	case <-lease.Lost():
		fmt.Println("told", context.Cause(lease.Context()))
		fmt.Println("released", lease.Release(context.Background()))
		<-ctx.Done()
	}
	return client.Close()
}

// place is a server and a path of a test's own on it.
type place struct {
	addr, prefix string
	left         func() []string
}

func somewhere(t *testing.T, m Mechanism) place {
	t.Helper()
	server := testkit.ZooKeeper(t)
	v := &view{Mechanism: m, conn: server.Conn(t, Session), prefix: "/" + testkit.KeyPrefix(t)}
	return place{addr: server.Addr(), prefix: v.prefix, left: func() []string {
		left, err := v.left(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return left
	}}
}

// holder starts a process that holds the lock, and returns its token.
func (p place) holder(t *testing.T) (*testkit.Process, uint64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := testkit.Start(t, testkit.Command{Path: self, Env: []string{holderAddr + "=" + p.addr, holderPrefix + "=" + p.prefix}})
	token, err := strconv.ParseUint(process.WaitLine(t, `^holds with token (\d+)$`)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return process, token
}

// waits acquires in the background and says when it got in.
func waits(t *testing.T, l lock.Locker) <-chan lock.Lease {
	t.Helper()
	got := make(chan lock.Lease, 1)
	go func() {
		lease, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- lease
	}()
	return got
}

// FreesLockOfDeadProcess checks that the lock of a process that is killed is free
// when its session ends, and that of one that ends in good order at once.
func FreesLockOfDeadProcess(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	p := somewhere(t, m)
	next := Process(t, m.Open, p.addr, p.prefix, nil)
	for _, tc := range []struct {
		name     string
		end      func(*testkit.Process)
		from, to time.Duration
	}{
		// A process has heard from the server within a third of the session timeout.
		{"killed", (*testkit.Process).Kill, Session / 3, Session + time.Second},
		{"closed", (*testkit.Process).Terminate, 0, Session / 2},
	} {
		process, token := p.holder(t)
		got := waits(t, next)
		ended := time.Now()
		tc.end(process)
		lease := <-got
		if lease == nil {
			return
		}
		if took := time.Since(ended); took < tc.from || took > tc.to {
			t.Errorf("%s: the next one got in after %v, want %v to %v", tc.name, took, tc.from, tc.to)
		}
		if lease.Token() <= token {
			t.Errorf("%s: token %d after %d", tc.name, lease.Token(), token)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := p.left(); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
}

// TellsPausedProcess checks that a process that stands still for longer than its
// session loses its lock to the next one, has the smaller token, and is told when it
// wakes, also by its release.
func TellsPausedProcess(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	p := somewhere(t, m)
	process, token := p.holder(t)
	got := waits(t, Process(t, m.Open, p.addr, p.prefix, nil))
	process.Pause()
	lease := <-got
	process.Resume()
	if lease == nil {
		return
	}
	if lease.Token() <= token {
		t.Errorf("the next one has token %d, the paused one %d", lease.Token(), token)
	}
	process.WaitLine(t, "^told "+lock.ErrExpired.Error())
	process.WaitLine(t, "^released "+lock.ErrLost.Error())
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the next one's release: %v", err)
	}
}

// LeavesNothingAfterLostReply cuts the connection after each reply of an
// acquisition in turn, in place of it: the outcome is a lock, or an error and no node.
func LeavesNothingAfterLostReply(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	p := somewhere(t, m)
	line := locktest.NewLine()
	locker := Process(t, m.Open, p.addr, p.prefix, line)
	acquire := func(ctx context.Context) error {
		lease, err := locker.Acquire(ctx, key, lock.Options{})
		if err == nil {
			err = lease.Release(t.Context())
		}
		return err
	}
	if err := acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 5; n++ { // some are those of the release
		line.LoseReply(n, locktest.Reset, nil)
		if err := acquire(t.Context()); err != nil {
			t.Errorf("with reply %d lost: %v", n, err)
		}
		if left := p.left(); len(left) > 0 {
			t.Errorf("with reply %d lost there is still %q", n, left)
		}
		ctx, cancel := context.WithCancel(t.Context())
		line.LoseReply(n, locktest.Reset, cancel)
		if err := acquire(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled, with reply %d lost: %v", n, err)
		}
		cancel()
		if left := p.left(); len(left) > 0 {
			t.Errorf("cancelled, with reply %d lost there is still %q", n, left)
		}
	}
}

// Herd says how many of n waiting processes talk to the server when the lock is
// released to one of them, and how many requests they make.
func Herd(t *testing.T, m Mechanism, n int) (awake, requests int) {
	t.Helper()
	p := somewhere(t, m)
	lease, err := Process(t, m.Open, p.addr, p.prefix, nil).Acquire(t.Context(), key, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, n)
	lines := make([]*counted, n)
	got := make(chan lock.Lease, n)
	for i := range lines {
		lines[i] = &counted{}
		client, err := zkio.Open(zkio.Config{Servers: []string{p.addr}, SessionTimeout: Session, Dial: lines[i].dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		locker, err := m.Open(client, p.prefix)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if lease, err := locker.Acquire(ctx, key, lock.Options{Wait: time.Minute}); err == nil {
				got <- lease
			}
			done <- struct{}{}
		}()
		lines[i].settle(t)
	}
	for _, line := range lines {
		line.take()
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	winner := <-got
	settleAll(lines)
	for _, line := range lines {
		if made := line.take(); made > 0 {
			awake++
			requests += made
		}
	}
	cancel()
	if err := winner.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for range n {
		<-done
	}
	select {
	case late := <-got: // it was let in before it noticed that it was cancelled
		_ = late.Release(t.Context())
	default:
	}
	t.Logf("%s: of %d waiting processes %d woke for one release and made %d requests", m.Name, n, awake, requests)
	if left := p.left(); len(left) > 0 {
		t.Errorf("there is still %q", left)
	}
	return awake, requests
}

// CountsLeaseFromGrant checks that the fixed lease of a holder that had to wait runs
// from when it got in, for itself and for who asks the store.
func CountsLeaseFromGrant(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	const ttl, wait = 2 * time.Second, 1500 * time.Millisecond
	p := somewhere(t, m)
	locker := Process(t, m.Open, p.addr, p.prefix, nil)
	if _, err := locker.Acquire(t.Context(), key, lock.Options{TTL: wait}); err != nil {
		t.Fatal(err)
	}
	lease, err := locker.Acquire(t.Context(), key, lock.Options{TTL: ttl, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if left := lease.Remaining(); left > ttl || left < ttl-wait/2 {
		t.Errorf("of a lease of %v that was just won %v are left", ttl, left)
	}
	if state, err := locker.Inspect(t.Context(), key); err != nil || state.TTL > ttl || state.TTL < ttl-wait/2 {
		t.Errorf("Inspect = %+v, %v, want a lease of %v that was just won", state, err, ttl)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
