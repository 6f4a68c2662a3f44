package testkit

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// RedisServer is a redis-server process of one test. Its methods fail that test, so those that can fail
// (Restart, Client) must be called from the test's own goroutine. A primary does not wait at its Stop for replicas
// that lag behind (by default it waits for ten seconds), unless NewRedis was given another --shutdown-timeout.
type RedisServer struct{ server[*redisProcess] }

// Redis returns the redis-server that all tests of this binary share. It stores nothing on disk. Use keys
// with a [KeyPrefix], and never FLUSHALL.
func Redis(t TB) *RedisServer {
	t.Helper()
	process, err := binary.redis.get(func() (*redisProcess, error) { return startRedis(redisOptions{}) })
	check(t, err)
	return &RedisServer{server[*redisProcess]{t, process, true}}
}

// NewRedis starts a redis-server for this test alone and stops it at the end of the test. It stores
// nothing on disk unless the arguments say otherwise: NewRedis(t, "--appendonly", "yes").
func NewRedis(t TB, args ...string) *RedisServer {
	t.Helper()
	return NewRedisEnv(t, nil, args...)
}

// NewRedisEnv is NewRedis with additional environment variables (NAME=value), such as a library to
// preload.
func NewRedisEnv(t TB, env []string, args ...string) *RedisServer {
	t.Helper()
	return newRedis(t, redisOptions{env: env, extra: args})
}

func newRedis(t TB, options redisOptions) *RedisServer {
	t.Helper()
	process, err := startRedis(options)
	check(t, err)
	closeAtEnd(t, process)
	return &RedisServer{server[*redisProcess]{t, process, false}}
}

// NewRedisProgram is NewRedis with another server, which must accept --port and --bind and answer INFO SERVER
// with its process_id.
func NewRedisProgram(t TB, program Command) *RedisServer {
	t.Helper()
	return newRedis(t, redisOptions{program: program})
}

// NewRedisReplica starts a replica of primary for this test alone, and returns once it is in sync.
func NewRedisReplica(t TB, primary *RedisServer, args ...string) *RedisServer {
	t.Helper()
	replica := NewRedis(t, args...)
	replica.ReplicaOf(primary.Addr())
	return replica
}

// Dir returns the server's data folder.
func (s *RedisServer) Dir() string { return s.process.dir }

// Client returns a client of the server, closed when t ends.
func (s *RedisServer) Client(t TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() {
		// The test may have closed it already.
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			t.Errorf("testkit: close redis client: %v", err)
		}
	})
	return client
}

// ReplicaOf makes the server a replica of the one at the address, and waits until it is in sync. If the
// address is a [Proxy]'s, cutting the proxy later makes the replica lag. After Restart the server is no longer a
// replica.
func (s *RedisServer) ReplicaOf(addr string) {
	s.t.Helper()
	process := s.own("ReplicaOf")
	host, port, err := net.SplitHostPort(addr)
	check(s.t, err)
	s.replicaOf(host, port)
	check(s.t, process.waitReady(s.process.inSync))
}

// Promote makes a replica a primary (REPLICAOF NO ONE), with the data that it has received so far.
func (s *RedisServer) Promote() {
	s.t.Helper()
	s.own("Promote")
	s.replicaOf("NO", "ONE")
}

func (s *RedisServer) replicaOf(host, port string) {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	defer client.Close()
	if err := client.ReplicaOf(s.t.Context(), host, port).Err(); err != nil {
		s.t.Fatalf("testkit: REPLICAOF %s %s: %v", host, port, err)
	}
}

// redisProcess is a redis-server (or a sentinel) with its port and folder.
type redisProcess struct {
	home
	options redisOptions
	path    string
}

func (s *redisProcess) name() string {
	if s.options.sentinel {
		return "a sentinel"
	}
	return "redis-server"
}

type redisOptions struct {
	program  Command // in place of redis-server
	valkey   bool    // Valkey in place of Redis, with the same flags
	sentinel bool
	env      []string // added to the environment of the test
	extra    []string // further flags
}

// clusterBus is the distance from its port at which a cluster node listens for the other nodes.
const clusterBus = 10000

// above returns the distances from its port at which the server listens, too.
func (o redisOptions) above() []int {
	if slices.Contains(o.extra, "--cluster-enabled") {
		return []int{clusterBus}
	}
	return nil
}

// locate returns the path of the server's program.
func (o redisOptions) locate() (string, error) {
	switch {
	case o.program.Path != "":
		return o.program.Path, nil
	case o.valkey:
		return valkey()
	}
	return lookUp("redis-server", redisHow)
}

const redisHow = "apt-get install redis-server, brew install redis, or make infra"

func startRedis(options redisOptions) (*redisProcess, error) {
	path, err := options.locate()
	if err != nil {
		return nil, err
	}
	s := &redisProcess{path: path, options: options}
	return s, s.settle(s, "", func() error { return nil }, options.above()...)
}

func (s *redisProcess) restart() error {
	// A primary need not wait for more replicas before it sends its data to the first one, nor for any
	// replica at its stop.
	args := []string{"--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0", "--shutdown-timeout", "0"}
	if s.options.sentinel {
		config, err := s.sentinelConfig()
		if err != nil {
			return err
		}
		args = []string{config, "--sentinel"}
	}
	args = append(args, "--dir", s.dir)
	if s.options.program.Path != "" {
		args = slices.Clone(s.options.program.Args)
	}
	args = append(args, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1")
	env := slices.Concat(s.options.program.Env, s.options.env)
	return s.run(Command{Path: s.path, Args: append(args, s.options.extra...), Env: env, Dir: s.dir}, s.ready)
}

// ready asks the server for its process id: the answer could come from another process on the same port.
// A server that is loading its data answers with an error.
func (s *redisProcess) ready(ctx context.Context) error {
	if err := listening(ctx, s.addr()); err != nil {
		return err
	}
	client := redis.NewClient(&redis.Options{Addr: s.addr(), MaxRetries: -1, PoolSize: 1})
	defer client.Close()
	defer context.AfterFunc(ctx, func() { client.Close() })() // the driver ignores ctx while it waits for an answer
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	info := client.InfoMap(ctx, "server")
	if err := info.Err(); err != nil {
		return err
	}
	if pid := info.Item("Server", "process_id"); pid != strconv.Itoa(s.PID()) {
		return fmt.Errorf("process %s answers at %s, not process %d", pid, s.addr(), s.PID())
	}
	return nil
}

// inSync returns nil if a replica has its primary's data and its link is up.
func (s *redisProcess) inSync(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: s.addr()})
	defer client.Close()
	info := client.InfoMap(ctx, "replication")
	if err := info.Err(); err != nil {
		return err
	}
	if state := info.Item("Replication", "master_link_status"); state != "up" {
		return fmt.Errorf("the replica's link is %q", state)
	}
	return nil
}

// sentinelConfig returns the path of the file in which a sentinel stores its state. It is empty at first
// and must be writable; the sentinel is configured over its connection.
func (s *redisProcess) sentinelConfig() (string, error) {
	path := filepath.Join(s.dir, "sentinel.conf")
	file, err := os.OpenFile(path, os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	return path, file.Close()
}
