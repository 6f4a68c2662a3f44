package testbed

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"seckill/internal/database"
	"seckill/internal/embedded"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/testkit"
)

// Server is something that an experiment requires.
type Server string

// The servers.
const (
	// Redis is a redis-server or, where none is installed, the laboratory's own: see [MainIfRedis]. Both are processes
	// that can be killed, paused and restarted.
	Redis Server = "redis"
	// Nodes are several independent ones of these, for the locks multi and red. API processes get them if the
	// experiment requires them.
	Nodes Server = "redis nodes"
	// RedisServer is for what only redis-server has: replicas, persistence, statistics.
	RedisServer Server = "redis-server"
	// Valkey is a server of Valkey 9 or later, which compares and deletes by itself, or the laboratory's own, which
	// does too.
	Valkey Server = "valkey-server"
	// Clock is a redis-server whose clock can be set.
	Clock    Server = "libfaketime"
	Database Server = "mariadbd"
	// Stock is a mariadbd or, where none is installed, an SQLite file: for what reads a stock and writes it back in
	// processes that are given the file. There too a transaction begins at its first write, so that two buyers read the
	// same stock; see package database.
	Stock     Server = "stock"
	ZooKeeper Server = "zookeeper"
)

func servers() []Server {
	return []Server{Redis, Nodes, RedisServer, Valkey, Clock, Database, Stock, ZooKeeper}
}

// program is what has to be installed for a server.
func (s Server) program() string {
	switch s {
	case Redis, Nodes:
		return string(RedisServer)
	case Stock:
		return string(Database)
	}
	return string(s)
}

// Substitute is what the laboratory has in a server's place where that is not installed; "" if it has nothing.
func (s Server) Substitute() string {
	switch s {
	case Redis, Nodes, Valkey:
		return "a Redis written in Go"
	case Stock:
		return "an SQLite file"
	}
	return ""
}

// String is the program that has to be installed, or what stands in its place.
func (s Server) String() string {
	if substitute := s.Substitute(); substitute != "" {
		return s.program() + " or " + substitute
	}
	return s.program()
}

// Lacks says which of some servers are not available in an environment with these options, all of them. It is zero if
// none is missing.
func (o Options) Lacks(needs []Server) (all i18n.Text) {
	var seen []string
	for _, server := range needs {
		err := o.Missing(server)
		if err == nil || slices.Contains(seen, server.program()) {
			continue
		}
		if seen = append(seen, server.program()); all.IsZero() {
			all = Reason(err)
		} else {
			all = i18n.F("%s; %s", all, Reason(err))
		}
	}
	return all
}

// missing says why a server is not available; nil if it is.
func (e *Environment) missing(server Server) error { return e.options.Missing(server) }

// Missing says why a server is not available in an environment with these options; nil if it is.
func (o Options) Missing(server Server) error {
	switch {
	case o.Embedded && server.Substitute() != "":
		return nil
	case o.Embedded:
		return &unfit{i18n.F("needs %s, and real servers are to be left alone", server.program())}
	}
	err := testkit.Installed(server.program())
	if server.Substitute() != "" && !infraRequired() {
		return nil
	}
	return err
}

// unfit is why an experiment cannot be run here.
type unfit struct{ why i18n.Text }

// Error implements error.
func (e *unfit) Error() string { return e.why.String() }

// Reason tells why an experiment cannot be run here.
func Reason(err error) i18n.Text {
	if missing, ok := errors.AsType[*testkit.MissingError](err); ok {
		return i18n.F("%s not found on PATH: %s", missing.Server, missing.How)
	}
	if e, ok := errors.AsType[*unfit](err); ok {
		return e.why
	}
	return i18n.Plain(err.Error())
}

// infraRequired says that a server that is not installed is an error.
func infraRequired() bool { return os.Getenv("REQUIRE_INFRA") == "1" }

// Require skips the experiment if servers are not available. REQUIRE_INFRA=1 makes it fail instead. API processes that
// are started afterwards know the servers.
func (r *Rig) Require(needs ...Server) {
	if lacks := r.env.options.Lacks(needs); !lacks.IsZero() {
		err := &unfit{lacks}
		if infraRequired() && !r.env.options.Embedded {
			r.Fatalf("%w (REQUIRE_INFRA=1 forbids to skip)", err)
		}
		r.Skipf("%w", err)
	}
	for _, server := range needs {
		r.mu.Lock()
		r.required[server] = true
		r.mu.Unlock()
		if server == Redis {
			r.noteRedisVersion() // an experiment with only its own servers reports it, too
		}
	}
}

func (r *Rig) requires(server Server) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.required[server]
}

// RealServers reports whether the API processes use redis-server and MariaDB; otherwise there is one embedded process.
func (r *Rig) RealServers() bool {
	return r.env.missing(RedisServer) == nil && r.env.missing(Database) == nil
}

// Engine says what the experiment runs on.
func (r *Rig) Engine() finding.Engine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.engine
}

// noteVersion records the version of a server, which is read once per environment.
func (r *Rig) noteVersion(server Server, read func(ctx context.Context) (string, error)) {
	version := r.env.versions[server].get(r, func() string {
		version, err := read(r.env.root.ctx)
		r.Must(err)
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

// Redis is the shared Redis server.
func (r *Rig) Redis() *testkit.RedisServer {
	r.noteRedisVersion()
	return r.env.sharedRedis(r)
}

// sharedRedis does not note that the experiment uses it.
func (e *Environment) sharedRedis(r *Rig) *testkit.RedisServer {
	return e.ownRedis.get(r, func() *testkit.RedisServer {
		if e.missing(RedisServer) == nil {
			return testkit.NewRedis(e.root) // a Redis belongs to one database, and each environment has its own
		}
		return e.root.childRedis()
	})
}

// RedisClient is a client of the shared Redis server.
func (r *Rig) RedisClient() *redis.Client {
	r.noteRedisVersion()
	return r.env.redis.get(r, func() *redis.Client { return r.env.sharedRedis(r.env.root).Client(r.env.root) })
}

// OwnRedis starts a Redis server for this experiment only. Arguments are for redis-server: an experiment that has some
// requires [RedisServer].
func (r *Rig) OwnRedis(args ...string) *testkit.RedisServer {
	r.noteRedisVersion()
	if r.env.missing(RedisServer) != nil && len(args) == 0 {
		return r.childRedis()
	}
	return testkit.NewRedis(r, args...)
}

// OwnValkey starts a Valkey server or, where none is installed, the laboratory's own, for this experiment only.
func (r *Rig) OwnValkey() *testkit.RedisServer {
	if r.env.options.Embedded || testkit.Installed(string(Valkey)) != nil {
		return r.childRedis()
	}
	return testkit.NewValkey(r)
}

// childRedis starts the laboratory's own Redis server.
func (r *Rig) childRedis() *testkit.RedisServer {
	program, err := redisProgram()
	r.Must(err)
	return testkit.NewRedisProgram(r, program)
}

// OwnNodes starts n independent Redis servers for this experiment only.
func (r *Rig) OwnNodes(n int, args ...string) []*testkit.RedisServer {
	nodes := make([]*testkit.RedisServer, n)
	for i := range nodes {
		nodes[i] = r.OwnRedis(args...)
	}
	return nodes
}

// OwnRedisWithClock starts a redis-server whose clock can be set, for this experiment only.
func (r *Rig) OwnRedisWithClock(args ...string) (*testkit.RedisServer, *testkit.Clock) {
	r.noteRedisVersion()
	return testkit.NewRedisWithClock(r, args...)
}

// noteRedisVersion reads the version of the shared server: all of them run the same program.
func (r *Rig) noteRedisVersion() {
	r.noteVersion(Redis, func(ctx context.Context) (string, error) {
		if r.env.missing(RedisServer) != nil {
			return EmbeddedRedis, nil
		}
		client := redis.NewClient(&redis.Options{Addr: testkit.Redis(r).Addr()})
		defer client.Close()
		info := client.InfoMap(ctx, "server")
		return "redis-server " + info.Item("Server", "redis_version"), info.Err()
	})
}

// nodes are the independent Redis servers that all experiments share.
type nodes struct {
	mu    sync.Mutex
	addrs []string
}

// sharedNodes is how many of them the API processes know.
const sharedNodes = 3

// Nodes returns the addresses of n independent Redis servers. All experiments share them, so an experiment must not
// disturb them; see [Rig.OwnNodes].
func (r *Rig) Nodes(n int) []string {
	r.noteRedisVersion()
	all := &r.env.nodes
	all.mu.Lock()
	defer all.mu.Unlock()
	for len(all.addrs) < n {
		all.addrs = append(all.addrs, r.env.root.OwnRedis().Addr())
	}
	return all.addrs[:n:n]
}

// ZooKeeper is the shared server.
func (r *Rig) ZooKeeper() *testkit.ZooKeeperServer {
	r.env.options.Progress(i18n.F("%s: starting %s", r.name, "ZooKeeper"))
	server := testkit.ZooKeeper(r)
	r.noteVersion(ZooKeeper, func(ctx context.Context) (string, error) {
		version, err := zooKeeperVersion(ctx, server.Addr())
		if err != nil {
			r.Logf("the version of ZooKeeper: %v", err) // only for information
		}
		return strings.TrimSpace("ZooKeeper " + version), nil
	})
	return server
}

// zooKeeperVersion asks a server for its version, in the first line of its "srvr" answer. The driver's own parser fails
// on the rest since averages are no longer integers.
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

// MariaDB is the shared database, migrated, on a server that commits without waiting for the disk.
func (r *Rig) MariaDB() testkit.Database {
	r.DB()
	return r.env.maria.get(r, r.openMaria)
}

func (r *Rig) openMaria() testkit.Database {
	r.env.options.Progress(i18n.F("%s: starting %s", r.name, "MariaDB"))
	return testkit.MariaDB(r.env.root)
}

// DB is the shared database, opened by this process.
func (r *Rig) DB() *database.DB {
	maria := r.env.maria.get(r, r.openMaria)
	db := r.env.db.get(r, func() *database.DB { return r.env.root.openDB(maria) })
	r.noteVersion(Database, func(ctx context.Context) (string, error) { return mariaVersion(ctx, db.RowPool()) })
	return db
}

// OwnDB is a database for this experiment only, on the shared server. In the shared database, API processes and other
// experiments look for orders that are due and for money that is to be paid back.
func (r *Rig) OwnDB() *database.DB {
	r.DB() // notes the version
	return r.openDB(testkit.MariaDB(r))
}

// AnyDB is a database for this experiment only: on the shared server or, where no mariadbd is installed, an SQLite
// file.
func (r *Rig) AnyDB() *database.DB {
	if r.env.missing(Database) == nil {
		return r.OwnDB()
	}
	_, db := r.ownFile()
	return db
}

// StockDB is the database for processes that sell one voucher, and where it is: the shared one or, where no mariadbd is
// installed, an SQLite file for this experiment only.
func (r *Rig) StockDB() (testkit.Database, *database.DB) {
	if r.env.missing(Database) == nil {
		return r.MariaDB(), r.DB()
	}
	return r.ownFile()
}

func (r *Rig) ownFile() (testkit.Database, *database.DB) {
	r.mu.Lock()
	r.engine.Database = EmbeddedDatabase
	r.mu.Unlock()
	file := testkit.SQLite(r)
	return file, r.openDB(file)
}

func (r *Rig) openDB(where testkit.Database) *database.DB {
	config := database.Config{MySQL: where.DSN, Logger: r.env.options.Log}
	if where.Engine == "sqlite" {
		config.MySQL, config.SQLite = "", where.DSN
	}
	db, err := database.Open(r.ctx, config)
	r.Must(err)
	r.Cleanup(func() { r.Must(db.Close()) })
	_, err = db.Migrate(r.ctx)
	r.Must(err)
	return db
}

func mariaVersion(ctx context.Context, pool *sql.DB) (string, error) {
	var version string
	err := pool.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
	return "MariaDB " + leadingVersion(version), err
}

// The names of the laboratory's own Redis server and of SQLite in results.
const (
	EmbeddedRedis    = "embedded (miniredis)"
	EmbeddedDatabase = "embedded (SQLite)"
)

// redisChildEnv is set in the server's process.
const redisChildEnv = "SECKILL_LAB_BUILTIN_REDIS"

// redisProgram is the command line of the server, without its port.
func redisProgram() (testkit.Command, error) {
	if os.Getenv(redisChildEnv) != "" {
		return testkit.Command{}, errors.New("testbed: this process is a Redis server itself: its main or TestMain does not call testbed.MainIfRedis")
	}
	self, err := os.Executable()
	return testkit.Command{Path: self, Args: []string{"builtin-redis"}, Env: []string{redisChildEnv + "=1"}}, err
}

// MainIfRedis turns this process into the laboratory's own Redis server, and does not return, if it was started as
// that: the server is the calling program, started again. A program whose experiments or tests may use it calls this
// first in its main or TestMain.
//
// The server is miniredis: it has what a lock uses, which is keys that expire by the clock, Lua scripts, publish and
// subscribe. It has no replicas, writes nothing to disk, and its clock cannot be set: experiments about these need
// redis-server.
func MainIfRedis() {
	if os.Getenv(redisChildEnv) == "" {
		return
	}
	err := serveRedis(os.Args[2:]) // until the process is killed
	fmt.Fprintln(os.Stderr, "lab's Redis server:", err)
	os.Exit(1)
}

func serveRedis(args []string) error {
	var port, host string
	flags := flag.NewFlagSet("builtin-redis", flag.ContinueOnError)
	flags.StringVar(&port, "port", "", "")
	flags.StringVar(&host, "bind", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	redis, err := embedded.NewRedis()
	if err != nil {
		return err
	}
	redis.SetHook(answerInfo)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		redis.Mini().Server().ServeConn(conn)
	}
}

// answerInfo answers INFO SERVER, which miniredis does not know: testkit asks which process answers at its port.
func answerInfo(client *server.Peer, command string, args ...string) (answered bool) {
	if command != "INFO" || len(args) != 1 || !strings.EqualFold(args[0], "server") {
		return false
	}
	client.WriteBulk(fmt.Sprintf("# Server\r\nprocess_id:%d\r\n", os.Getpid()))
	return true
}
