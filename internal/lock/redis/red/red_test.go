package red_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/nodestore"
	"seckill/internal/lock/redis/red"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.ExamplesNeed("redis-server")
	testkit.Main(m)
}

// patience is the NodeTimeout of tests in which no node fails: a busy machine must not look
// like a silent node. renewed is the length of renewed leases in the suite.
const (
	patience = time.Second
	renewed  = 2 * time.Second
)

func open(clients []*redis.Client, prefix string) (lock.Locker, error) {
	return red.New(nodes(clients), red.Config{Prefix: prefix, WatchdogTimeout: renewed, NodeTimeout: patience})
}

func nodes(clients []*redis.Client) []red.Client {
	all := make([]red.Client, len(clients))
	for i, c := range clients {
		all[i] = c
	}
	return all
}

func TestConformance(t *testing.T) {
	factory := nodestore.Factory("red", nodestore.Start(t, 3), 2, open)
	subject := func(tb testing.TB) locktest.Subject {
		s := factory(tb)
		s.Renewed = renewed
		return s
	}
	locktest.Run(t, subject, promises())
}

func promises() locktest.Promises {
	return locktest.Polling().
		Except(locktest.Breaks("no tokens: independent nodes have no common counter"), locktest.TokensGrow)
}

func TestNewRefuses(t *testing.T) {
	client := func(addr string) red.Client {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	a, b, c := client("127.0.0.1:1"), client("127.0.0.1:2"), client("127.0.0.1:3")
	for name, given := range map[string]struct {
		nodes  []red.Client
		config red.Config
	}{
		"no node":                                  {nil, red.Config{}},
		"a node without a client":                  {[]red.Client{a, b, nil}, red.Config{}},
		"the same client twice":                    {[]red.Client{a, b, a}, red.Config{}},
		"the same address twice":                   {[]red.Client{a, b, client("127.0.0.1:1")}, red.Config{}},
		"a lease less than its drift":              {[]red.Client{a, b, c}, red.Config{WatchdogTimeout: 2 * time.Millisecond}},
		"a node that may hang longer than a lease": {[]red.Client{a, b, c}, red.Config{NodeTimeout: time.Minute}},
	} {
		if l, err := red.New(given.nodes, given.config); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("%s: New = %v, %v, want ErrInvalid", name, l, err)
		}
	}
}
