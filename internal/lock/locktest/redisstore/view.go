package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/simulate"
)

// view reads and changes the keys under one prefix. What it reads is the state of a quorum of the nodes; what it
// changes is changed on all of them.
type view struct {
	Mechanism
	prefix  string
	quorum  int
	nodes   []node
	clients []redis.UniversalClient
}

func (v *view) store() locktest.Store {
	s := locktest.Store{
		TTL: v.ttl, Shorten: v.shorten, Remove: v.remove, PutWrongKind: v.putWrongKind, Leftovers: v.leftovers, Pause: v.pause,
	}
	if len(v.nodes) == 1 {
		s.Connections = v.connections
	}
	return s
}

func (v *view) name(key string) string { return redisio.Key(v.prefix, v.Name, key, "") }

// ttl returns how long a quorum of the nodes still has the key.
func (v *view) ttl(ctx context.Context, key string) (time.Duration, error) {
	var ttls []time.Duration
	for _, c := range v.clients {
		ttl, err := c.PTTL(ctx, v.name(key)).Result()
		switch {
		case err != nil:
			return 0, err
		case ttl == -1: // go-redis returns the replies -1 and -2 unchanged, as nanoseconds
			ttl = lock.NoExpiry
		case ttl == -2:
			ttl = 0
		}
		ttls = append(ttls, ttl)
	}
	slices.Sort(ttls)
	return ttls[len(ttls)-v.quorum], nil
}

func (v *view) shorten(ctx context.Context, key string, ttl time.Duration) error {
	return v.everywhere(func(c redis.UniversalClient) error {
		return c.Do(ctx, "PEXPIRE", v.name(key), ttl.Milliseconds(), "XX").Err() // XX: only if the key has an expiry
	})
}

func (v *view) remove(ctx context.Context, key string) error {
	return v.everywhere(func(c redis.UniversalClient) error { return c.Del(ctx, v.name(key)).Err() })
}

func (v *view) putWrongKind(ctx context.Context, key string) error {
	return v.everywhere(func(c redis.UniversalClient) error { return c.RPush(ctx, v.name(key), "not", "a", "lock").Err() })
}

func (v *view) pause(ctx context.Context, d time.Duration) error {
	var failed []error
	for i, n := range v.nodes {
		if n.pause != nil {
			n.pause(d)
			continue
		}
		failed = append(failed, v.clients[i].Do(ctx, "CLIENT", "PAUSE", d.Milliseconds(), "ALL").Err())
	}
	return errors.Join(failed...)
}

func (v *view) everywhere(do func(redis.UniversalClient) error) error {
	var failed []error
	for _, c := range v.clients {
		failed = append(failed, do(c))
	}
	return errors.Join(failed...)
}

// leftovers lists the keys and channels of all nodes.
func (v *view) leftovers(ctx context.Context) (found []string, err error) {
	for _, c := range v.clients {
		left, err := v.left(ctx, c)
		if err != nil {
			return nil, err
		}
		found = append(found, left...)
	}
	return found, nil
}

func (v *view) left(ctx context.Context, c redis.Cmdable) (found []string, err error) {
	keys := c.Scan(ctx, 0, v.prefix+"*", 1000).Iterator()
	for keys.Next(ctx) {
		if v.Keeps == "" || !strings.HasSuffix(keys.Val(), v.Keeps) {
			found = append(found, keys.Val())
		}
	}
	if err := keys.Err(); err != nil {
		return nil, fmt.Errorf("listing keys: %w", err)
	}
	channels, err := c.PubSubChannels(ctx, v.prefix+"*").Result()
	if err != nil {
		return nil, fmt.Errorf("listing channels: %w", err)
	}
	return append(found, channels...), nil
}

// connections counts the subscribers among the clients whose name is the prefix.
func (v *view) connections(ctx context.Context) (int, error) {
	list, err := v.clients[0].Do(ctx, "CLIENT", "LIST", "TYPE", "pubsub").Text()
	if err != nil {
		return 0, fmt.Errorf("listing clients: %w", err)
	}
	return strings.Count(list, " name="+v.prefix+" "), nil
}

// listening counts the connections on which clients subscribe, in place of CLIENT LIST, which the simulated server does
// not have.
type listening struct{ n atomic.Int64 }

func (l *listening) count(context.Context) (int, error) { return int(l.n.Load()), nil }

func (l *listening) over(dial simulate.DialFunc) simulate.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		var conn net.Conn
		var err error
		done := make(chan struct{})
		go func() { // the server's goroutines are not the client's, whose labels the suite counts
			defer close(done)
			pprof.SetGoroutineLabels(context.Background())
			conn, err = dial(ctx, network, addr)
		}()
		if <-done; err != nil {
			return nil, err
		}
		return &listener{Conn: conn, of: l}, nil
	}
}

type listener struct {
	net.Conn
	of      *listening
	listens atomic.Bool
}

func (c *listener) Write(p []byte) (int, error) {
	if bytes.Contains(bytes.ToLower(p), []byte("\r\nsubscribe\r\n")) && !c.listens.Swap(true) {
		c.of.n.Add(1)
	}
	return c.Conn.Write(p)
}

func (c *listener) Close() error {
	if c.listens.Swap(false) {
		c.of.n.Add(-1)
	}
	return c.Conn.Close()
}
