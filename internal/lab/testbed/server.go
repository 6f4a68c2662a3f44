package testbed

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/lab/finding"
	"seckill/internal/testkit"
)

// Server is something that an experiment requires.
type Server string

// The servers.
const (
	Redis     Server = "redis-server"
	Database  Server = "mariadbd"
	ZooKeeper Server = "zookeeper"
	// Nodes are several independent redis-servers, for the locks multi and red. API processes
	// get them if the experiment requires them.
	Nodes Server = "redis nodes"
	// Clock is a redis-server whose clock can be set.
	Clock Server = "libfaketime"
)

func servers() []Server { return []Server{Redis, Database, ZooKeeper, Nodes, Clock} }

// program is what has to be installed for a server.
func (s Server) program() string {
	if s == Nodes {
		return string(Redis)
	}
	return string(s)
}

// missing says why a server is not available; nil if it is.
func (e *Environment) missing(server Server) error {
	if e.options.Embedded {
		return fmt.Errorf("needs %s, and real servers are to be left alone", server.program())
	}
	return testkit.Installed(server.program())
}

// Require skips the experiment if a server is not available. REQUIRE_INFRA=1 makes it fail
// instead. API processes that are started afterwards know the server.
func (r *Run) Require(server Server) {
	if err := r.env.missing(server); err != nil {
		if os.Getenv("REQUIRE_INFRA") == "1" && !r.env.options.Embedded {
			r.Fatalf("%w (REQUIRE_INFRA=1 forbids to skip)", err)
		}
		r.Skipf("%w", err)
	}
	r.mu.Lock()
	r.required[server] = true
	r.mu.Unlock()
	if server == Redis {
		r.Redis() // an experiment with only its own servers reports this version, too
	}
}

func (r *Run) requires(server Server) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.required[server]
}

// RealServers reports whether the API processes use redis-server and MariaDB; otherwise there
// is one embedded process.
func (r *Run) RealServers() bool {
	return r.env.missing(Redis) == nil && r.env.missing(Database) == nil
}

// Engine says what the experiment runs on.
func (r *Run) Engine() finding.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine
}

// noteVersion records the version of a server, which is read once per environment.
func (r *Run) noteVersion(server Server, read func(ctx context.Context) (string, error)) {
	version := r.env.versions[server].get(r, func() string {
		version, err := read(r.env.root.ctx)
		r.must(err)
		return version
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	switch server {
	case Redis:
		r.engine.Redis = version
	case Database:
		r.engine.Database = version
	case ZooKeeper:
		r.engine.ZooKeeper = version
	}
}

// Redis is the shared redis-server.
func (r *Run) Redis() *testkit.RedisServer {
	server := testkit.Redis(r)
	r.noteRedisVersion()
	return server
}

// RedisClient is a client of the shared redis-server.
func (r *Run) RedisClient() *redis.Client {
	r.noteRedisVersion()
	return r.env.redis.get(r, func() *redis.Client { return testkit.Redis(r.env.root).Client(r.env.root) })
}

// OwnRedis starts a redis-server for this experiment only.
func (r *Run) OwnRedis(args ...string) *testkit.RedisServer {
	r.noteRedisVersion()
	return testkit.NewRedis(r, args...)
}

// OwnNodes starts n independent redis-servers for this experiment only.
func (r *Run) OwnNodes(n int, args ...string) []*testkit.RedisServer {
	nodes := make([]*testkit.RedisServer, n)
	for i := range nodes {
		nodes[i] = r.OwnRedis(args...)
	}
	return nodes
}

// OwnRedisWithClock starts a redis-server whose clock can be set, for this experiment only.
func (r *Run) OwnRedisWithClock(args ...string) (*testkit.RedisServer, *testkit.Clock) {
	r.noteRedisVersion()
	return testkit.NewRedisWithClock(r, args...)
}

// noteRedisVersion reads the version of the shared server: all of them run the same program.
func (r *Run) noteRedisVersion() {
	r.noteVersion(Redis, func(ctx context.Context) (string, error) {
		client := redis.NewClient(&redis.Options{Addr: testkit.Redis(r).Addr()})
		defer client.Close()
		info := client.InfoMap(ctx, "server")
		return "redis-server " + info.Item("Server", "redis_version"), info.Err()
	})
}

// nodes are the independent redis-servers that all experiments share.
type nodes struct {
	mu    sync.Mutex
	addrs []string
}

// sharedNodes is how many of them the API processes know.
const sharedNodes = 3

// Nodes returns the addresses of n independent redis-servers. All experiments share them, so
// an experiment must not disturb them; see [Run.OwnNodes].
func (r *Run) Nodes(n int) []string {
	r.noteRedisVersion()
	all := &r.env.nodes
	all.mu.Lock()
	defer all.mu.Unlock()
	for len(all.addrs) < n {
		all.addrs = append(all.addrs, testkit.NewRedis(r.env.root).Addr())
	}
	return all.addrs[:n:n]
}

// ZooKeeper is the shared server.
func (r *Run) ZooKeeper() *testkit.ZooKeeperServer {
	r.env.options.Progress(r.name + ": ZooKeeper")
	server := testkit.ZooKeeper(r)
	r.noteZooKeeperVersion(server)
	return server
}

// noteZooKeeperVersion reads the version if the server tells it.
func (r *Run) noteZooKeeperVersion(server *testkit.ZooKeeperServer) {
	r.noteVersion(ZooKeeper, func(ctx context.Context) (string, error) {
		version, err := zooKeeperVersion(ctx, server.Addr())
		if err != nil {
			r.Logf("the version of ZooKeeper: %v", err) // only for information
		}
		return strings.TrimSpace("ZooKeeper " + version), nil
	})
}

// zooKeeperVersion asks a server for its version, in the first line of its "srvr" answer. The
// driver's own parser fails on the rest since averages are no longer integers.
func zooKeeperVersion(ctx context.Context, addr string) (string, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, "srvr"); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return "", err
	}
	_, version, _ := strings.Cut(line, "version: ")
	return leadingVersion(version), nil
}

// leadingVersion returns the leading digits and dots of a version.
func leadingVersion(version string) string {
	if end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		version = version[:end]
	}
	return version
}

// MariaDB is the shared database, migrated, on a server that commits without waiting for the
// disk.
func (r *Run) MariaDB() testkit.Database {
	r.DB()
	return r.env.maria.get(r, r.openMaria)
}

func (r *Run) openMaria() testkit.Database {
	r.env.options.Progress(r.name + ": MariaDB")
	return testkit.MariaDB(r.env.root)
}

// DB is the shared database, opened by this process.
func (r *Run) DB() *database.DB {
	maria := r.env.maria.get(r, r.openMaria)
	db := r.env.db.get(r, func() *database.DB {
		root := r.env.root
		db, err := database.Open(root.ctx, database.Config{MySQL: maria.DSN, Logger: r.env.options.Log})
		r.must(err)
		root.Cleanup(func() { r.must(db.Close()) })
		_, err = db.Migrate(root.ctx)
		r.must(err)
		return db
	})
	r.noteVersion(Database, func(ctx context.Context) (string, error) { return mariaVersion(ctx, db.RowPool()) })
	return db
}

func mariaVersion(ctx context.Context, pool *sql.DB) (string, error) {
	var version string
	err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	return "MariaDB " + leadingVersion(version), err
}
