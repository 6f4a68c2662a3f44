package lockers_test

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/redis/red"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(t *testing.T, servers lockers.Servers, config lockers.Config) *lockers.Set {
	t.Helper()
	config.Prefix = testkit.KeyPrefix(t)
	set, err := lockers.Open(servers, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	})
	return set
}

// The servers decide which mechanisms there are; none of them has to answer yet.
func TestWhatServersGive(t *testing.T) {
	client := testkit.Redis(t).Client(t)
	db, err := sql.Open("mysql", "nobody@tcp(127.0.0.1:1)/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	var nodes []red.Client
	for port := range 3 {
		node := redis.NewClient(&redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port+1)})
		t.Cleanup(func() { _ = node.Close() })
		nodes = append(nodes, node)
	}
	all := func(names ...string) []string { return append([]string{"none", "local"}, names...) }
	for name, c := range map[string]struct {
		servers lockers.Servers
		want    []string
	}{
		"none": {lockers.Servers{}, all()},
		"redis": {lockers.Servers{Redis: client}, all("setnx", "setnx-expire", "naive", "thread-id", "uuid", "uuid-wrong-key",
			"lua", "reentrant", "fair", "rw", "fenced")},
		"one node":    {lockers.Servers{Nodes: nodes[:1]}, all("multi")},
		"three nodes": {lockers.Servers{Nodes: nodes}, all("multi", "red")},
		"mysql":       {lockers.Servers{MySQL: db, Rows: db}, all("mysql-row", "mysql-row-expiry", "mysql-get-lock", "mysql-for-update")},
		"rows":        {lockers.Servers{Rows: db}, all("mysql-row", "mysql-row-expiry")},
		"zookeeper":   {lockers.Servers{ZooKeeper: []string{"127.0.0.1:1"}}, all("zk-node", "zk-queue")},
	} {
		t.Run(name, func(t *testing.T) {
			if got := open(t, c.servers, lockers.Config{}).Names(); !slices.Equal(got, c.want) {
				t.Errorf("opened %q, want %q", got, c.want)
			}
		})
	}
}

func TestWatchdogIsTheLease(t *testing.T) {
	set := open(t, lockers.Servers{Redis: testkit.Redis(t).Client(t)}, lockers.Config{Watchdog: 5 * time.Second})
	for _, name := range []string{"reentrant", "fair", "rw", "fenced"} {
		l, err := set.Locker(name)
		if err != nil {
			t.Fatal(err)
		}
		held, err := l.Acquire(t.Context(), "seat", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		state, err := l.(lock.Inspector).Inspect(t.Context(), "seat")
		if err != nil || state.TTL <= 0 || state.TTL > 5*time.Second || held.Remaining() > 5*time.Second {
			t.Errorf("%s: %+v, %v; %v left", name, state, err, held.Remaining())
		}
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryMechanismIsWrapped(t *testing.T) {
	var mu sync.Mutex
	var wrapped []string
	set := open(t, lockers.Servers{Redis: testkit.Redis(t).Client(t)}, lockers.Config{
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
	if _, err := set.Reader("rw"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Reader of a wrapped mechanism = %v", err)
	}
}

func TestReadersHoldTogether(t *testing.T) {
	set := open(t, lockers.Servers{Redis: testkit.Redis(t).Client(t)}, lockers.Config{})
	reader, err := set.Reader("rw")
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		held, err := reader.Acquire(t.Context(), "seat", lock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = held.Release(t.Context()) }()
	}
	if _, err := set.Reader("lua"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Reader(lua) = %v", err)
	}
	if _, err := set.Reader("mutex"); !errors.Is(err, lock.ErrUnknown) {
		t.Errorf("Reader(mutex) = %v", err)
	}
}

// What the catalogue says of how a key finds its next holder is what the mechanisms do, in one process and between two.
func TestPassing(t *testing.T) {
	servers := lockers.Servers{Redis: testkit.Redis(t).Client(t), ZooKeeper: []string{testkit.ZooKeeper(t).Addr()}}
	for range 3 {
		servers.Nodes = append(servers.Nodes, testkit.NewRedis(t).Client(t))
	}
	config := lockers.Config{Prefix: testkit.KeyPrefix(t), NodeTimeout: 5 * time.Second}
	one, other := openPassing(t, servers, config), openPassing(t, servers, config)
	for _, m := range lock.Catalogue() {
		if m.Name == "none" || strings.HasPrefix(m.Name, "mysql") {
			continue // no waiters; PassingUntold, and polling
		}
		if m.Name == "uuid-wrong-key" {
			continue // it reads another key than it wrote, so its release fails
		}
		inProcess, byStore := lock.PassedInProcess, lock.PassedByStore
		switch {
		case m.Passing != lock.PassingTold:
			inProcess, byStore = lock.FoundFree, lock.FoundFree
		case m.Name == "zk-queue": // the server keeps the queue, of all processes
			inProcess = lock.PassedByStore
		}
		t.Run(m.Name, func(t *testing.T) {
			passing(t, one, one, m.Name, inProcess)
			if m.Name != "local" {
				passing(t, one, other, m.Name, byStore)
			}
		})
	}
}

func openPassing(t *testing.T, servers lockers.Servers, config lockers.Config) *lockers.Set {
	t.Helper()
	set, err := lockers.Open(servers, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = set.Close() })
	return set
}

// passing tries until a key comes to a waiter in the wanted way. Every round gives the waiter twice the time to begin to
// wait: a release that does not find it yet may leave the key free, or to the store. What is FoundFree has to be so in
// all rounds.
func passing(t *testing.T, holders, waiters *lockers.Set, name string, want lock.Handover) {
	t.Helper()
	var got lock.Handover
	for hold := 5 * time.Millisecond; hold < 5*time.Second; hold *= 2 {
		got = nextHolder(t, holders, waiters, name, hold)
		if want == lock.FoundFree {
			if got != want || hold > 50*time.Millisecond {
				break
			}
		} else if got == want {
			break
		}
	}
	if got != want {
		t.Errorf("the next holder: %v, want %v", got, want)
	}
}

// nextHolder returns how a key came to a waiter after its holder had it for a while.
func nextHolder(t *testing.T, holders, waiters *lockers.Set, name string, hold time.Duration) lock.Handover {
	t.Helper()
	holder, err := holders.Locker(name)
	if err != nil {
		t.Fatal(err)
	}
	waiter, err := waiters.Locker(name)
	if err != nil {
		t.Fatal(err)
	}
	held, err := holder.Acquire(t.Context(), "passed", lock.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := lock.HandoverOf(held); got != lock.FoundFree {
		t.Errorf("the first holder: %v", got)
	}
	next := lock.Async(t.Context(), waiter, "passed", lock.Options{Wait: time.Minute})
	time.Sleep(hold)
	if err := held.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := <-next
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	got := lock.HandoverOf(r.Lease)
	if err := r.Lease.Release(t.Context()); err != nil {
		t.Error(err)
	}
	return got
}

// Every mechanism that cannot work is reported, and no goroutine is left.
func TestWrongConfiguration(t *testing.T) {
	client := testkit.Redis(t).Client(t)
	for _, c := range []lockers.Config{{Watchdog: -time.Second}, {ZooKeeperSession: time.Millisecond}} {
		set, err := lockers.Open(lockers.Servers{Redis: client, ZooKeeper: []string{"127.0.0.1:1"}}, c)
		if !errors.Is(err, lock.ErrInvalid) || set != nil {
			t.Errorf("Open(%+v) = %v, %v", c, set, err)
		}
	}
}
