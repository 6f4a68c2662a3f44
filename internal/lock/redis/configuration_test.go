package redis_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/lua"
	"seckill/internal/lock/redis/multi"
	"seckill/internal/lock/redis/naive"
	"seckill/internal/lock/redis/plain"
	"seckill/internal/lock/redis/quorum"
	"seckill/internal/lock/redis/red"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/lock/redis/setnx"
	"seckill/internal/lock/redis/setnxexpire"
	"seckill/internal/lock/redis/threadid"
	"seckill/internal/lock/redis/uuid"
	"seckill/internal/testkit/fail"
)

// What cannot work is refused when a locker is made.
func TestNewRefuses(t *testing.T) {
	client := func(addr string) quorum.Client {
		c := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	one := client("127.0.0.1:1")
	a, b, c := client("127.0.0.1:1"), client("127.0.0.1:2"), client("127.0.0.1:3")
	refused := map[string]func() error{
		"naive without a client":        func() error { _, err := naive.New(nil, plain.Config{}); return err },
		"lua without a client":          func() error { _, err := lua.New(nil, plain.Config{}); return err },
		"uuid without a client":         func() error { _, err := uuid.New(nil, plain.Config{}); return err },
		"thread-id without a client":    func() error { _, err := threadid.New(nil, plain.Config{}); return err },
		"setnx without a client":        func() error { _, err := setnx.New(nil, plain.Config{}); return err },
		"setnx-expire without a client": func() error { _, err := setnxexpire.New(nil, plain.Config{}); return err },
		"reentrant without a client":    func() error { _, err := reentrant.New(nil, reentrant.Config{}); return err },
	}
	for what, config := range map[string]reentrant.Config{
		"a renewal as long as the lease": {WatchdogTimeout: time.Second, RenewEvery: time.Second},
		"a retry as long as the renewal": {WatchdogTimeout: 3 * time.Second, RetryEvery: time.Second},
		"a negative retry":               {RetryEvery: -1},
		"a lease below a ms":             {WatchdogTimeout: time.Microsecond},
		"a lease of a day":               {WatchdogTimeout: 24 * time.Hour},
		"a negative command timeout":     {CommandTimeout: -1},
		"a negative number of pipelines": {Pipelines: -1},
	} {
		refused["reentrant: "+what] = func() error { return config.WithDefaults().Validate() }
	}
	fail.If(t, (reentrant.Config{}).WithDefaults().Validate(), "the defaults of reentrant are invalid")
	for what, given := range map[string]struct {
		nodes  []quorum.Client
		config quorum.Config
	}{
		"no node":                                  {},
		"a node without a client":                  {nodes: []quorum.Client{a, b, nil}},
		"the same client twice":                    {nodes: []quorum.Client{a, b, a}},
		"the same address twice":                   {nodes: []quorum.Client{a, b, one}},
		"a lease less than its drift":              {[]quorum.Client{a, b, c}, quorum.Config{WatchdogTimeout: 2 * time.Millisecond}},
		"a node that may hang longer than a lease": {[]quorum.Client{a, b, c}, quorum.Config{NodeTimeout: time.Minute}},
	} {
		refused["red: "+what] = func() error { _, err := red.New(given.nodes, given.config); return err }
		refused["multi: "+what] = func() error { _, err := multi.New(given.nodes, given.config); return err }
	}
	for what, try := range refused {
		fail.Unless(t, try(), lock.ErrInvalid, "%s", what)
	}
}
