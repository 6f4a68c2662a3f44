package multi_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// patience is the NodeTimeout of tests in which no node is to fail: a busy machine
// is no silent node. renewed is the watchdog's lease in the suite.
const (
	patience = time.Second
	renewed  = 2 * time.Second
)

func open(clients []*redis.Client, prefix string) (lock.Locker, error) {
	return multi.New(nodes(clients), multi.Config{Prefix: prefix, WatchdogTimeout: renewed, NodeTimeout: patience})
}

func nodes(clients []*redis.Client) []multi.Client {
	all := make([]multi.Client, len(clients))
	for i, c := range clients {
		all[i] = c
	}
	return all
}

func TestConformance(t *testing.T) {
	factory := nodestore.Factory("multi", nodestore.Start(t, 3), 3, open)
	subject := func(tb testing.TB) locktest.Subject {
		s := factory(tb)
		s.Renewed = renewed
		return s
	}
	locktest.Run(t, subject, promises())
}

func promises() locktest.Promises {
	p := make(locktest.Promises)
	for _, b := range locktest.Behaviours() {
		p[b] = locktest.Holds()
	}
	p[locktest.ServesInOrder] = locktest.Breaks("whoever asks at the right moment gets in")
	p[locktest.Reenters] = locktest.Breaks("an owner waits for itself")
	p[locktest.ReentryKeepsLease] = locktest.NotApplicable("no re-entry")
	p[locktest.TokensGrow] = locktest.Breaks("no tokens: independent nodes have no counter in common")
	p[locktest.ServesInOrderAcrossProcesses] = locktest.Breaks("whoever asks at the right moment gets in")
	p[locktest.QueueSurvivesPause] = locktest.Breaks("there is no queue")
	p[locktest.TokenStaysOnReentry] = locktest.Breaks("no tokens")
	p[locktest.TokensOutliveLock] = locktest.Breaks("no tokens")
	p[locktest.LinearizableReentrant] = locktest.Breaks("an owner waits for itself")
	p[locktest.LinearizableFenced] = locktest.Breaks("no tokens")
	p[locktest.WakesByMessage] = locktest.Breaks("waiters poll")
	return p
}

func TestNewRefuses(t *testing.T) {
	client := func(addr string) multi.Client {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b, c := client("127.0.0.1:1"), client("127.0.0.1:2"), client("127.0.0.1:3")
	for name, given := range map[string]struct {
		nodes  []multi.Client
		config multi.Config
	}{
		"no node":                                  {nil, multi.Config{}},
		"a node without a client":                  {[]multi.Client{a, b, nil}, multi.Config{}},
		"the same client twice":                    {[]multi.Client{a, b, a}, multi.Config{}},
		"the same address twice":                   {[]multi.Client{a, b, client("127.0.0.1:1")}, multi.Config{}},
		"a lease less than its drift":              {[]multi.Client{a, b, c}, multi.Config{WatchdogTimeout: 2 * time.Millisecond}},
		"a node that may hang longer than a lease": {[]multi.Client{a, b, c}, multi.Config{NodeTimeout: time.Minute}},
	} {
		if l, err := multi.New(given.nodes, given.config); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: New = %v, %v, want ErrInvalid", name, l, err)
		}
	}
}
