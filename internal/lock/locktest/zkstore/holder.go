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

// These variables tell a copy of the test binary to be a holder, and where.
const (
	holderAddr   = "ZKSTORE_HOLDER_ADDR"
	holderPrefix = "ZKSTORE_HOLDER_PREFIX"
)

// Main runs the tests of a mechanism, or runs as a process that holds a lock for them.
func Main(m *testing.M, open Open) {
	if addr := os.Getenv(holderAddr); addr != "" {
		if err := hold(open, addr, os.Getenv(holderPrefix)); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	// Most of the time these tests wait for the end of a session.
	if err := flag.Set("test.parallel", "6"); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	testkit.Main(m)
}

// hold takes the lock, prints what happens to it, and closes its client on SIGTERM.
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

// location is a server and a path on it that no other test uses.
type location struct {
	addr, prefix string
	leftovers    func() []string
}

func newLocation(t *testing.T, m Mechanism) location {
	t.Helper()
	server := testkit.ZooKeeper(t)
	v := &view{Mechanism: m, conn: server.Conn(t, Session), prefix: "/" + testkit.KeyPrefix(t)}
	return location{addr: server.Addr(), prefix: v.prefix, leftovers: func() []string {
		left, err := v.leftovers(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return left
	}}
}

// holder starts a process that holds the lock, and returns its token.
func (loc location) holder(t *testing.T) (*testkit.Process, uint64) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := testkit.Start(t, testkit.Command{Path: self,
		Env: []string{holderAddr + "=" + loc.addr, holderPrefix + "=" + loc.prefix}})
	token, err := strconv.ParseUint(process.WaitLine(t, `^holds with token (\d+)$`)[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return process, token
}

// waits acquires in the background and delivers the lease.
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

// FreesLockOfDeadProcess checks that the lock of a killed process is free at the end of its
// session, and at once if the process closes its client.
func FreesLockOfDeadProcess(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	loc := newLocation(t, m)
	next := Process(t, m.Open, loc.addr, loc.prefix, nil)
	for _, tc := range []struct {
		name     string
		end      func(*testkit.Process)
		from, to time.Duration
	}{
		// A live process has heard from the server within a third of the session timeout.
		{"killed", (*testkit.Process).Kill, Session / 3, Session + time.Second},
		{"closed", (*testkit.Process).Terminate, 0, Session / 2},
	} {
		process, token := loc.holder(t)
		got := waits(t, next)
		ended := time.Now()
		tc.end(process)
		lease := <-got
		if lease == nil {
			return
		}
		if took := time.Since(ended); took < tc.from || took > tc.to {
			t.Errorf("%s: the next owner got the lock after %v, want %v to %v", tc.name, took, tc.from, tc.to)
		}
		if lease.Token() <= token {
			t.Errorf("%s: token %d after %d", tc.name, lease.Token(), token)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := loc.leftovers(); len(left) > 0 {
		t.Errorf("the store still has %q", left)
	}
}

// TellsPausedProcess pauses a holder's process for longer than its session. It checks that
// the next owner gets the lock with a greater token, and that the paused process is told
// when it wakes, also by its release.
func TellsPausedProcess(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	loc := newLocation(t, m)
	process, token := loc.holder(t)
	got := waits(t, Process(t, m.Open, loc.addr, loc.prefix, nil))
	process.Pause()
	lease := <-got
	process.Resume()
	if lease == nil {
		return
	}
	if lease.Token() <= token {
		t.Errorf("the next owner has token %d, the paused one %d", lease.Token(), token)
	}
	process.WaitLine(t, "^told "+lock.ErrExpired.Error())
	process.WaitLine(t, "^released "+lock.ErrLost.Error())
	if err := lease.Release(t.Context()); err != nil {
		t.Errorf("the next owner's release: %v", err)
	}
}

// LeavesNothingAfterLostReply closes the connection instead of delivering a reply, for each
// reply of an acquisition in turn. The result must be a lock, or an error and no node.
func LeavesNothingAfterLostReply(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	loc := newLocation(t, m)
	line := locktest.NewNetwork()
	locker := Process(t, m.Open, loc.addr, loc.prefix, line)
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
	for n := 1; n <= 5; n++ { // some of these replies belong to the release
		line.LoseReply(n, locktest.Reset, nil)
		if err := acquire(t.Context()); err != nil {
			t.Errorf("with reply %d lost: %v", n, err)
		}
		if left := loc.leftovers(); len(left) > 0 {
			t.Errorf("with reply %d lost the store still has %q", n, left)
		}
		ctx, cancel := context.WithCancel(t.Context())
		line.LoseReply(n, locktest.Reset, cancel)
		if err := acquire(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled, with reply %d lost: %v", n, err)
		}
		cancel()
		if left := loc.leftovers(); len(left) > 0 {
			t.Errorf("cancelled, with reply %d lost the store still has %q", n, left)
		}
	}
}

// MeasureHerd says how many of n waiting processes talk to the server when the lock is
// released to one of them, and how many requests they make. It measures again, a few times,
// if a session ended: then the server was late for all, and all connect again.
func MeasureHerd(t *testing.T, m Mechanism, n int) (awake, requests int) {
	t.Helper()
	for try := 1; ; try++ {
		awake, requests, err := measureHerd(t, m, n)
		switch {
		case errors.Is(err, lock.ErrUnavailable) && try < 5:
			t.Logf("measured again: %v", err)
			continue
		case err != nil:
			t.Error(err)
		}
		t.Logf("%s: of %d waiting processes %d woke for one release and made %d requests", m.Name, n, awake, requests)
		return awake, requests
	}
}

func measureHerd(t *testing.T, m Mechanism, n int) (awake, requests int, err error) {
	t.Helper()
	loc := newLocation(t, m)
	lease, err := Process(t, m.Open, loc.addr, loc.prefix, nil).Acquire(t.Context(), key, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{}, n)
	dialers := make([]*countingDialer, n)
	got := make(chan lock.Lease, n)
	failed := make(chan error, n)
	until := func(what string, condition func() bool) {
		t.Helper()
		testkit.Until(t, what, func() bool { return len(failed) > 0 || condition() })
	}
	for i := range dialers {
		dialers[i] = &countingDialer{}
		client, err := zkio.Open(zkio.Config{Servers: []string{loc.addr}, SessionTimeout: Session, Dial: dialers[i].dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		locker, err := m.Open(client, loc.prefix)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			lease, err := locker.Acquire(ctx, key, lock.Options{Wait: time.Minute})
			switch {
			case err == nil:
				got <- lease
			case ctx.Err() == nil:
				failed <- err
			}
			done <- struct{}{}
		}()
		until("the process waits", dialers[i].waits)
	}
	countRequests(dialers) // those until here do not count
	err = lease.Release(t.Context())
	winner := <-got
	until("all but the new holder wait again", func() bool { return settled(dialers) })
	awake, requests = countRequests(dialers)
	cancel()
	err = errors.Join(err, winner.Release(t.Context()))
	for range n {
		<-done
	}
	if len(failed) > 0 {
		err = errors.Join(err, <-failed)
	}
	select {
	case late := <-got: // it got the lock before it noticed the cancellation
		_ = late.Release(t.Context())
	default:
	}
	if left := loc.leftovers(); err == nil && len(left) > 0 {
		t.Errorf("the store still has %q", left)
	}
	return awake, requests, err
}

// CountsLeaseFromGrant checks that the fixed lease of a holder that had to wait counts from
// the grant, for the holder itself and for Inspect.
func CountsLeaseFromGrant(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	const ttl, wait = 2 * time.Second, 1500 * time.Millisecond
	loc := newLocation(t, m)
	locker := Process(t, m.Open, loc.addr, loc.prefix, nil)
	if _, err := locker.Acquire(t.Context(), key, lock.Options{TTL: wait}); err != nil {
		t.Fatal(err)
	}
	lease, err := locker.Acquire(t.Context(), key, lock.Options{TTL: ttl, Wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if left := lease.Remaining(); left > ttl || left < ttl-wait/2 {
		t.Errorf("of a lease of %v that was just granted %v are left", ttl, left)
	}
	if state, err := locker.Inspect(t.Context(), key); err != nil || state.TTL > ttl || state.TTL < ttl-wait/2 {
		t.Errorf("Inspect = %+v, %v, want a lease of %v that was just granted", state, err, ttl)
	}
	if err := lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
}
