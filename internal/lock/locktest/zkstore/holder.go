package zkstore

import (
	"context"
	"errors"
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

// These variables tell the holder's process where the lock is.
const (
	holderAddr   = "ZKSTORE_HOLDER_ADDR"
	holderPrefix = "ZKSTORE_HOLDER_PREFIX"
)

// Main runs the tests of a mechanism, or a process that holds a lock for them.
func Main(m *testing.M, open Open) {
	testkit.Main(m, testkit.Children{"holder": func() int {
		if err := hold(open, os.Getenv(holderAddr), os.Getenv(holderPrefix)); err != nil {
			fmt.Println("failed:", err)
			return 1
		}
		return 0
	}})
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
	v := &view{Mechanism: m, conn: server.Conn(t, LongSession), prefix: "/" + testkit.KeyPrefix(t)}
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
	process := testkit.StartChild(t, "holder", holderAddr+"="+loc.addr, holderPrefix+"="+loc.prefix)
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

// FreesLockOfDeadProcess checks that the lock of a process becomes free when it is killed, and when it closes its
// client, and that nothing is left.
func FreesLockOfDeadProcess(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	loc := newLocation(t, m)
	next := Process(t, m.Open, loc.addr, loc.prefix, LongSession, nil)
	for name, end := range map[string]func(*testkit.Process){
		"killed": (*testkit.Process).Kill, "closed": (*testkit.Process).Terminate,
	} {
		process, token := loc.holder(t)
		got := waits(t, next)
		end(process)
		lease := <-got
		if lease == nil {
			return
		}
		if lease.Token() <= token {
			t.Errorf("%s: token %d after %d", name, lease.Token(), token)
		}
		if err := lease.Release(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left := loc.leftovers(); len(left) > 0 {
		t.Errorf("the store still has %q", left)
	}
}

// TellsPausedProcess pauses a holder's process for longer than its session. It checks that the next owner gets the lock
// with a greater token, and that the paused process is told when it wakes, also by its release.
func TellsPausedProcess(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	loc := newLocation(t, m)
	process, token := loc.holder(t)
	got := waits(t, Process(t, m.Open, loc.addr, loc.prefix, LongSession, nil))
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

// LeavesNothingAfterLostReply closes the connection instead of delivering a reply, for each reply of an acquisition in
// turn. The result must be a lock, or an error and no node.
func LeavesNothingAfterLostReply(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	loc := newLocation(t, m)
	line := locktest.NewNetwork()
	locker := Process(t, m.Open, loc.addr, loc.prefix, LongSession, line)
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

// Herd are processes that wait for one lock, and a holder.
type Herd struct {
	lines []*countingDialer
	held  lock.Lease
	got   chan lock.Lease
	left  int // that have not had the lock
}

// NewHerd starts n waiting processes. Their sessions outlast the test: what they send after the release they send
// because of it.
func NewHerd(t *testing.T, m Mechanism, n int) *Herd {
	t.Helper()
	loc := newLocation(t, m)
	h := &Herd{got: make(chan lock.Lease, n), left: n}
	var err error
	h.held, err = Process(t, m.Open, loc.addr, loc.prefix, LongSession, nil).Acquire(t.Context(), key, lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		line := &countingDialer{}
		client, err := zkio.Open(zkio.Config{
			Servers: []string{loc.addr}, SessionTimeout: LongSession, CommandTimeout: LongSession / 3, Dial: line.dial,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		locker, err := m.Open(client, loc.prefix)
		if err != nil {
			t.Fatal(err)
		}
		h.lines = append(h.lines, line)
		go func() {
			lease, err := locker.Acquire(t.Context(), key, lock.Options{Wait: lock.MaxTTL})
			if err != nil {
				t.Error(err)
			}
			line.granted()
			h.got <- lease
		}()
		testkit.Until(t, "the process waits", line.waits)
	}
	for _, line := range h.lines { // what was sent until here does not count
		line.reset()
	}
	return h
}

// Release gives the lock to one of the processes.
func (h *Herd) Release(t *testing.T) {
	t.Helper()
	if err := h.held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.held = <-h.got; h.held == nil {
		t.FailNow()
	}
	h.left--
}

// AwaitAwake waits until each process has sent a request because of a release.
func (h *Herd) AwaitAwake(t *testing.T) {
	t.Helper()
	for _, line := range h.lines {
		testkit.Until(t, "a request of every process", func() bool { return line.requests() > 0 })
	}
}

// Drain has every process get the lock, in turn, and returns how many requests each made because of releases until it
// had the lock.
func (h *Herd) Drain(t *testing.T) (requests []int) {
	t.Helper()
	for h.left > 0 {
		h.Release(t)
	}
	if err := h.held.Release(t.Context()); err != nil {
		t.Error(err)
	}
	for _, line := range h.lines {
		requests = append(requests, line.requests())
	}
	return requests
}

// CountsLeaseFromGrant checks that the fixed lease of a holder that had to wait counts from the grant, for the holder
// itself and for Inspect.
func CountsLeaseFromGrant(t *testing.T, m Mechanism) {
	t.Helper()
	t.Parallel()
	const ttl, wait = 2 * time.Second, 1500 * time.Millisecond
	loc := newLocation(t, m)
	locker := Process(t, m.Open, loc.addr, loc.prefix, LongSession, nil)
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
