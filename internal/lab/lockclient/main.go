package lockclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"sync"
	"time"
)

// Config says who a client is, and which servers it has. Without its server a mechanism is
// unknown to the client.
type Config struct {
	// Name of the process in the event log, such as "holder".
	Name string
	// Prefix goes before every key, so that experiments can share servers.
	Prefix string

	// RedisAddrs is a single node, or a cluster if there are several.
	RedisAddrs []string
	// NodeAddrs are independent Redis servers, for multi and red.
	NodeAddrs []string
	// NodeTimeout bounds a round trip to one of them. Default: the mechanism's own.
	NodeTimeout time.Duration
	// MySQLDSN or SQLite is the database, already migrated; SQLite is the path of a file.
	MySQLDSN, SQLite string
	ZooKeeperAddrs   []string

	// Watchdog is the lease of locks that are renewed. Default: each mechanism's own.
	Watchdog time.Duration
	// ZKSession is ZooKeeper's session timeout. Default: the mechanism's own.
	ZKSession time.Duration

	// EventFile is where events are appended; set by [Start].
	EventFile string
}

// MainIfChild turns this process into a client, and does not return, if [Start] has started it
// as one. A program whose experiments or tests have clients calls it first in its main or
// TestMain.
func MainIfChild() {
	given := os.Getenv(childEnv)
	if given == "" {
		return
	}
	var config Config
	err := json.Unmarshal([]byte(given), &config)
	if err == nil {
		err = serve(config, os.Stdin, os.Stdout, os.Stderr)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockclient:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// service is what the child's methods are called by in requests.
const service = "Client"

// serve answers requests until the input ends. It releases nothing then.
func serve(config Config, in io.Reader, out io.WriteCloser, logs io.Writer) error {
	life, end := context.WithCancel(context.Background())
	defer end()
	c, err := openChild(life, config, logs)
	if err != nil {
		return err
	}
	requests := rpc.NewServer()
	if err := requests.RegisterName(service, &server{child: c, contexts: map[int64]cancellable{}}); err != nil {
		return errors.Join(err, c.close())
	}
	requests.ServeCodec(jsonrpc.NewServerCodec(conn{input{in, end}, out})) // until the last request has its answer
	return c.close()
}

// input ends the child's work when it ends: nobody is left who asked for it.
type input struct {
	io.Reader
	end func()
}

// Read implements [io.Reader].
func (i input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		i.end()
	}
	return n, err
}

// server has what a client can be asked for, as exported methods: package net/rpc runs each request in its own goroutine.
type server struct {
	*child

	mu       sync.Mutex
	contexts map[int64]cancellable // of all requests: a cancellation may come before or after its request
}

type cancellable struct {
	context.Context
	cancel context.CancelFunc
}

func (s *server) contextOf(id int64) cancellable {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, known := s.contexts[id]
	if !known {
		c.Context, c.cancel = context.WithCancel(s.life)
		s.contexts[id] = c
	}
	return c
}

func (s *server) Cancel(id int64, _ *noResult) error {
	s.contextOf(id).cancel()
	return nil
}

func (s *server) Ready(r Request[noResult], to *Reply[noResult]) error {
	return answer(s, r, to, func(context.Context, noResult) (noResult, error) { return noResult{}, nil })
}

func (s *server) Acquire(r Request[Acquire], to *Reply[Grant]) error {
	return answer(s, r, to, s.acquire)
}

func (s *server) Release(r Request[Lease], to *Reply[noResult]) error {
	return answer(s, r, to, s.release)
}

func (s *server) Told(r Request[Lease], to *Reply[int64]) error { return answer(s, r, to, s.told) }

func (s *server) AwaitLoss(r Request[Lease], to *Reply[int64]) error {
	return answer(s, r, to, s.awaitLoss)
}

func (s *server) Read(r Request[Read], to *Reply[Reading]) error { return answer(s, r, to, s.read) }

func (s *server) Write(r Request[Write], to *Reply[noResult]) error {
	return answer(s, r, to, s.write)
}

func (s *server) Sell(r Request[Sell], to *Reply[Sold]) error { return answer(s, r, to, s.sell) }

func (s *server) Panic(r Request[Panic], to *Reply[Panicked]) error {
	return answer(s, r, to, s.panic)
}

// answer executes a request. A panic ends the request and nothing else, as in a web server.
func answer[P, R any](s *server, r Request[P], to *Reply[R], do func(context.Context, P) (R, error)) error {
	ctx := s.contextOf(r.ID)
	defer ctx.cancel()
	defer func() {
		if p := recover(); p != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "a request panicked", slog.Any("panic", p))
			to.Error = report(fmt.Errorf("%w: %v", ErrPanicked, p))
		}
	}()
	result, err := do(ctx, r.With)
	*to = Reply[R]{result, report(err)}
	return nil
}
