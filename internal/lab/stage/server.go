package stage

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

// Server is something that an experiment cannot do without.
type Server string

// The servers.
const (
	Redis     Server = "redis-server"
	Database  Server = "mariadbd"
	ZooKeeper Server = "zookeeper"
	// Nodes are several redis-servers that know nothing of each other, for the locks
	// multi and red. API processes are given them where this is needed.
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

// missing says why a server cannot be had; nil where it can.
func (h *House) missing(server Server) error {
	if h.options.Embedded {
		return fmt.Errorf("needs %s, and real servers are to be left alone", server.program())
	}
	return testkit.Installed(server.program())
}

// Need says that the experiment is nothing without a server: it is skipped where that
// cannot be had. REQUIRE_INFRA=1 makes it fail instead. API processes that are asked for
// afterwards know the server.
func (s *Stage) Need(server Server) {
	if err := s.house.missing(server); err != nil {
		if os.Getenv("REQUIRE_INFRA") == "1" && !s.house.options.Embedded {
			s.Fatalf("%w (REQUIRE_INFRA=1 forbids to skip)", err)
		}
		s.Skipf("%w", err)
	}
	s.mu.Lock()
	s.needs[server] = true
	s.mu.Unlock()
	if server == Redis {
		s.Redis() // also where it uses one of its own only, this says which version
	}
}

func (s *Stage) needed(server Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needs[server]
}

// Real says whether the API processes use redis-server and MariaDB; else there is one,
// embedded.
func (s *Stage) Real() bool {
	return s.house.missing(Redis) == nil && s.house.missing(Database) == nil
}

// Engine says what the experiment runs on.
func (s *Stage) Engine() finding.Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engine
}

// runsOn notes a version, which is read once in a house.
func (s *Stage) runsOn(server Server, read func(ctx context.Context) (string, error)) {
	version := s.house.versions[server].get(s, func() string {
		version, err := read(s.house.root.ctx)
		s.must(err)
		return version
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	switch server {
	case Redis:
		s.engine.Redis = version
	case Database:
		s.engine.Database = version
	case ZooKeeper:
		s.engine.ZooKeeper = version
	}
}

// Redis is the redis-server that all experiments share.
func (s *Stage) Redis() *testkit.RedisServer {
	server := testkit.Redis(s)
	s.noteRedis()
	return server
}

// RedisClient is a client of the shared redis-server.
func (s *Stage) RedisClient() *redis.Client {
	s.noteRedis()
	return s.house.redis.get(s, func() *redis.Client { return testkit.Redis(s.house.root).Client(s.house.root) })
}

// OwnRedis starts a redis-server for this experiment alone.
func (s *Stage) OwnRedis(args ...string) *testkit.RedisServer {
	s.noteRedis()
	return testkit.NewRedis(s, args...)
}

// OwnNodes starts n redis-servers that know nothing of each other, for this experiment
// alone.
func (s *Stage) OwnNodes(n int, args ...string) []*testkit.RedisServer {
	nodes := make([]*testkit.RedisServer, n)
	for i := range nodes {
		nodes[i] = s.OwnRedis(args...)
	}
	return nodes
}

// OwnRedisWithClock starts a redis-server whose clock can be set, for this experiment
// alone.
func (s *Stage) OwnRedisWithClock(args ...string) (*testkit.RedisServer, *testkit.Clock) {
	s.noteRedis()
	return testkit.NewRedisWithClock(s, args...)
}

// noteRedis reads the version of the shared server: all of them run the same program.
func (s *Stage) noteRedis() {
	s.runsOn(Redis, func(ctx context.Context) (string, error) {
		client := redis.NewClient(&redis.Options{Addr: testkit.Redis(s).Addr()})
		defer client.Close()
		info := client.InfoMap(ctx, "server")
		return "redis-server " + info.Item("Server", "redis_version"), info.Err()
	})
}

// nodes are the redis-servers that know nothing of each other and that all experiments
// share.
type nodes struct {
	mu    sync.Mutex
	addrs []string
}

// sharedNodes is how many the API processes know.
const sharedNodes = 3

// Nodes are the addresses of n redis-servers that know nothing of each other. All
// experiments share them, so nothing may be done to them; see [Stage.OwnNodes].
func (s *Stage) Nodes(n int) []string {
	s.noteRedis()
	all := &s.house.nodes
	all.mu.Lock()
	defer all.mu.Unlock()
	for len(all.addrs) < n {
		all.addrs = append(all.addrs, testkit.NewRedis(s.house.root).Addr())
	}
	return all.addrs[:n:n]
}

// ZooKeeper is the server that all experiments share.
func (s *Stage) ZooKeeper() *testkit.ZooKeeperServer {
	s.house.options.Progress(s.name + ": ZooKeeper")
	server := testkit.ZooKeeper(s)
	s.noteZooKeeper(server)
	return server
}

// noteZooKeeper reads the version where the server answers that question.
func (s *Stage) noteZooKeeper(server *testkit.ZooKeeperServer) {
	s.runsOn(ZooKeeper, func(ctx context.Context) (string, error) {
		version, err := zooKeeperVersion(ctx, server.Addr())
		if err != nil {
			s.Logf("the version of ZooKeeper: %v", err) // it is good to know, and no more
		}
		return strings.TrimSpace("ZooKeeper " + version), nil
	})
}

// zooKeeperVersion asks a server what it is, by the first line of its "srvr". The
// driver's own reading of the rest fails since averages are no whole numbers.
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
	return leading(version), nil
}

// leading is the part of a version that people know.
func leading(version string) string {
	if end := strings.IndexFunc(version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		version = version[:end]
	}
	return version
}

// MariaDB is the database that all experiments share, migrated, on a server that
// commits without waiting for the disk.
func (s *Stage) MariaDB() testkit.Database {
	s.DB()
	return s.house.maria.get(s, s.openMaria)
}

func (s *Stage) openMaria() testkit.Database {
	s.house.options.Progress(s.name + ": MariaDB")
	return testkit.MariaDB(s.house.root)
}

// DB is the shared database, opened by this process.
func (s *Stage) DB() *database.DB {
	maria := s.house.maria.get(s, s.openMaria)
	db := s.house.db.get(s, func() *database.DB {
		root := s.house.root
		db, err := database.Open(root.ctx, database.Config{MySQL: maria.DSN, Logger: s.house.options.Log})
		s.must(err)
		root.Cleanup(func() { s.must(db.Close()) })
		_, err = db.Migrate(root.ctx)
		s.must(err)
		return db
	})
	s.runsOn(Database, func(ctx context.Context) (string, error) { return mariaVersion(ctx, db.RowPool()) })
	return db
}

func mariaVersion(ctx context.Context, pool *sql.DB) (string, error) {
	var version string
	err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	return "MariaDB " + leading(version), err
}
