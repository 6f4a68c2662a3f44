package lockers_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/red"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(t *testing.T, servers lockers.Servers, config lockers.Config) *lockers.Set {
	t.Helper()
	set, err := lockers.Open(servers, config)
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, set.Close())
	})
	return set
}

// The servers decide which mechanisms there are; none of them has to answer yet.
func TestWhatServersGive(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = client.Close() })
	db, err := sql.Open("mysql", "nobody@tcp(127.0.0.1:1)/nothing")
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = db.Close() })
	var nodes []red.Client
	for port := range 3 {
		node := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port+1)})
		t.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	in := func(stores ...lock.Store) (names []string) {
		for _, m := range lock.Catalogue() {
			if m.Store == lock.InProcess || slices.Contains(stores, m.Store) {
				names = append(names, m.Name)
			}
		}
		return names
	}
	for name, c := range map[string]struct {
		servers lockers.Servers
		want    []string
	}{
		"none":        {lockers.Servers{}, in()},
		"redis":       {lockers.Servers{Redis: client}, in(lock.InRedis)},
		"one node":    {lockers.Servers{Nodes: nodes[:1]}, append(in(), "multi")},
		"three nodes": {lockers.Servers{Nodes: nodes}, in(lock.InNodes)},
		"mysql":       {lockers.Servers{MySQL: db, Rows: db}, in(lock.InMySQL)},
		"rows":        {lockers.Servers{Rows: db}, append(in(), "mysql-row", "mysql-row-expiry")},
		"zookeeper":   {lockers.Servers{ZooKeeper: []string{"127.0.0.1:1"}}, in(lock.InZooKeeper)},
	} {
		t.Run(name, func(t *testing.T) {
			if got := open(t, c.servers, lockers.Config{}).Names(); !slices.Equal(got, c.want) {
				t.Errorf("opened %q, want %q", got, c.want)
			}
		})
	}
}

func TestWatchdogIsTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, p twoProcesses) {
		if !p.renews {
			return
		}
		held := mustAcquire(t, p.first, "seat", lock.Options{})
		state, err := p.first.(lock.Inspector).Inspect(t.Context(), "seat")
		if err != nil || state.TTL != watchdog || held.Remaining() > watchdog {
			t.Errorf("%+v, %v; %v left", state, err, held.Remaining())
		}
		fail.If(t, held.Release(t.Context()))
	})
}

func TestEveryMechanismIsWrapped(t *testing.T) {
	var mu sync.Mutex
	var wrapped []string
	set := open(t, lockers.Servers{Redis: simulate.NewRedis(t).Client(t)}, lockers.Config{
		Wrap: func(name string, l lock.Locker) lock.Locker {
			mu.Lock()
			defer mu.Unlock()
			wrapped = append(wrapped, name)
			return lock.Observe(l, lock.Observer{})
		},
	})
	slices.Sort(wrapped)
	if names := slices.Sorted(slices.Values(set.Names())); !slices.Equal(wrapped, names) {
		t.Errorf("wrapped %q of %q", wrapped, names)
	}
	fail.Unless(t, fail.Of(set.Reader("rw")), errors.ErrUnsupported, "Reader of a wrapped mechanism")
}

func TestReadersHoldTogether(t *testing.T) {
	set := open(t, lockers.Servers{Redis: simulate.NewRedis(t).Client(t)}, lockers.Config{})
	reader, err := set.Reader("rw")
	fail.NowIf(t, err)
	for range 2 {
		held, err := reader.Acquire(t.Context(), "seat", lock.Options{})
		fail.NowIf(t, err)
		defer func() { _ = held.Release(t.Context()) }()
	}
	fail.Unless(t, fail.Of(set.Reader("lua")), errors.ErrUnsupported, "Reader(lua)")
	fail.Unless(t, fail.Of(set.Reader("mutex")), lock.ErrUnknown, "Reader(mutex)")
}

// What the catalogue says of how a key finds its next holder is what the mechanisms do, in one process and between two.
func TestPassing(t *testing.T) {
	for _, m := range lock.Catalogue() {
		if m.Name == "none" || m.Store == lock.InMySQL || m.Store == lock.InZooKeeper {
			continue // no waiters; PassingUntold, and polling; TestPassingInZooKeeper
		}
		if m.Name == "uuid-wrong-key" {
			continue // it reads another key than it wrote, so its release fails
		}
		inProcess, byStore := lock.PassedInProcess, lock.PassedByStore
		if m.Passing != lock.PassingTold {
			inProcess, byStore = lock.FoundFree, lock.FoundFree
		}
		t.Run(m.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := lockers.Servers{Redis: simulate.NewRedis(t).Client(t)}
				for i := range red.MinNodes {
					options := simulate.NewRedis(t).Options()
					options.Addr = fmt.Sprintf("127.0.0.1:%d", i+1) // two votes of one server would be one
					node := redis.NewClient(options)
					defer node.Close()
					servers.Nodes = append(servers.Nodes, node)
				}
				one, other := open(t, servers, lockers.Config{}), open(t, servers, lockers.Config{})
				waiting := func(lock.Locker) { simulate.Sleep(time.Second / 2) } // it asks every second
				mustPass(t, locker(t, one, m.Name), locker(t, one, m.Name), waiting, inProcess)
				if m.Name != "local" {
					mustPass(t, locker(t, one, m.Name), locker(t, other, m.Name), waiting, byStore)
				}
			})
		})
	}
}

func locker(t *testing.T, set *lockers.Set, name string) lock.Locker {
	t.Helper()
	l, err := set.Locker(name)
	fail.NowIf(t, err)
	return l
}

// mustPass checks how a key comes to a waiter after its release. waiting returns once the waiter waits.
func mustPass(t *testing.T, holder, waiter lock.Locker, waiting func(lock.Locker), want lock.Handover) {
	t.Helper()
	fail.Unequal(t, pass(t, holder, waiter, waiting), want, "the next holder")
}

// pass has one locker wait for what another one holds, and returns how it came to hold it.
func pass(t *testing.T, holder, waiter lock.Locker, waiting func(lock.Locker)) lock.Handover {
	t.Helper()
	held := mustAcquire(t, holder, "passed", lock.Options{})
	fail.Unequal(t, lock.HandoverOf(held), lock.FoundFree, "the first holder")
	next := locktest.InBackground(t.Context(), waiter, "passed", lock.Options{Wait: time.Minute})
	waiting(waiter)
	fail.NowIf(t, held.Release(t.Context()))
	r := <-next
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	got := lock.HandoverOf(r.Lease)
	fail.If(t, r.Lease.Release(t.Context()))
	return got
}

// Every mechanism that cannot work is reported, and no goroutine is left.
func TestWrongConfiguration(t *testing.T) {
	client := simulate.NewRedis(t).Client(t)
	for _, c := range []lockers.Config{{Watchdog: -time.Second}, {ZooKeeperSession: time.Millisecond}} {
		set, err := lockers.Open(lockers.Servers{Redis: client, ZooKeeper: []string{"127.0.0.1:1"}}, c)
		if !errors.Is(err, lock.ErrInvalid) || set != nil {
			t.Errorf("Open(%+v) = %v, %v", c, set, err)
		}
	}
}
