package service

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/lock/redis/red"
)

// Config is the configuration of the service.
type Config struct {
	Addr           string
	DebugAddr      string
	MySQLDSN       string
	RedisAddrs     []string
	RedisMaster    string
	RedisPassword  string
	Redis          redisConfig
	MySQL          mysqlConfig
	RedisDB        int    // number of the Redis database; 0 in a cluster
	KeyPrefix      string // of every key in Redis; "": [KeyPrefix]
	WaitReplicas   int    // number of replicas that must have an order before it is confirmed to the buyer
	LockRedisAddrs []string
	AllowEviction  bool // start even if Redis may evict accepted orders and locks
	ZooKeeperAddrs []string
	LockWatchdog   time.Duration // 0: each mechanism's default
	Lab            bool
	LabAllowRemote bool
	LabHosts       []string // host names of this server in lab mode, besides those of loopback
	LabTrace       string   // a file, "" for none
	LabName        string
	JWTSecret      string
	AdminToken     string
	UserRate       float64 // orders per user and second; 0: no limit
	Bounds         httpapi.Limits
	UserLookups    float64 // look-ups of orders and idempotency keys, per user and second
	UserKeys       int64   // new idempotency keys, per user and hour
	UserCancels    int64   // cancelled orders, per user and hour
	Admission      admissionConfig
	Payment        paymentConfig
	LogLevel       slog.Level
	// ShutdownDelay is how long the service continues to serve after it was told to stop, ShutdownTimeout how long its
	// last requests may take after that.
	ShutdownDelay, ShutdownTimeout time.Duration

	IDs string

	// Traces is where traces are sent.
	Traces tracesConfig
	// IdleTimeout is how long a connection without a request stays open.
	IdleTimeout time.Duration

	// Embedded says that neither a database nor Redis is configured.
	Embedded bool
	// Unknown are the SECKILL_ variables in the environment that are not settings.
	Unknown []string
}

// The minimum lengths of secrets. HS256 needs a key as long as its hash.
const (
	minJWTSecret  = 32
	minAdminToken = 16
)

func settings() []setting {
	return slices.Concat([]setting{
		{name: "addr", arg: "host:port", usage: "where to serve (default 127.0.0.1:8080)", address: true,
			set: func(c *Config, v string) error { c.Addr = v; return checkAddr(v) }},
		{name: "debug-addr", arg: "host:port", usage: "where to serve /livez, /readyz, /metrics and /debug/pprof; without it the first three are served with the API. With a network as the host, 10.1.0.0/24:9100, at this machine's address in it", address: true,
			set: func(c *Config, v string) error { c.DebugAddr = v; return checkDebugAddr(v) }},
		{name: "mysql-dsn", arg: "DSN", usage: "MySQL or MariaDB DSN, user:password@tcp(host:port)/database", secret: true,
			set: func(c *Config, v string) error { c.MySQLDSN = v; return nil }},
		{name: "redis-addrs", arg: "host:port,…", usage: "Redis: one address is a single node, several are a cluster, as is one with -redis-cluster; with -redis-master they are sentinels", address: true,
			set: func(c *Config, v string) (err error) { c.RedisAddrs, err = addrList(v); return err }},
		{name: "redis-master", arg: "name", usage: "name of the primary that the sentinels watch",
			set: func(c *Config, v string) error { c.RedisMaster = v; return nil }},
		{name: "redis-password", arg: "password", usage: "password of Redis", secret: true,
			set: func(c *Config, v string) error { c.RedisPassword = v; return nil }},
		{name: "redis-db", arg: "number", usage: fmt.Sprintf("number of the Redis database, 0 to %d; a cluster has only 0 (default 0)", maxRedisDB),
			set: func(c *Config, v string) (err error) { c.RedisDB, err = parseNumber(v, 0, maxRedisDB); return err }},
		{name: "key-prefix", arg: "prefix", usage: "prefix of every key in Redis, so that several installations can share one: 1 to 32 letters, digits, dots, hyphens, underscores and colons (default " + KeyPrefix + ")",
			set: func(c *Config, v string) error { c.KeyPrefix = v; return checkPrefix(v) }},
		{name: "redis-wait-replicas", arg: "number", usage: fmt.Sprintf("how many replicas of Redis must have an accepted order before its buyer is told and before it is written to the database, 0 to %d (default 0: the primary's word is enough)", maxWaitReplicas),
			set: func(c *Config, v string) (err error) {
				c.WaitReplicas, err = parseNumber(v, 0, maxWaitReplicas)
				return err
			}},
		{name: "lock-redis-addrs", arg: "host:port,…", usage: "independent Redis nodes for the locks multi and red", address: true,
			set: func(c *Config, v string) (err error) { c.LockRedisAddrs, err = addrList(v); return err }},
		{name: "allow-eviction", arg: "", usage: "serve although Redis has a maxmemory-policy other than noeviction: accepted orders and locks can be lost",
			set: func(c *Config, v string) (err error) { c.AllowEviction, err = parseBool(v); return err }},
		{name: "zookeeper-addrs", arg: "host:port,…", usage: "ZooKeeper servers for the locks zk-node and zk-queue", address: true,
			set: func(c *Config, v string) (err error) { c.ZooKeeperAddrs, err = addrList(v); return err }},
		{name: "lock-watchdog", arg: "duration", usage: fmt.Sprintf("lease of the locks that are renewed while they are held, %v to %v (default: each mechanism's own, 30s)", minLockWatchdog, lock.MaxTTL),
			set: func(c *Config, v string) (err error) {
				c.LockWatchdog, err = parseDuration(v, "500ms or 30s", minLockWatchdog, lock.MaxTTL)
				return err
			}},
		{name: "lab", arg: "", usage: "lab mode: unsafe policies, faults, X-User-ID and admin calls without a token (default: only when embedded)",
			set: func(c *Config, v string) (err error) { c.Lab, err = parseBool(v); return err }},
		{name: "lab-allow-remote", arg: "", usage: "let lab mode listen beyond loopback",
			set: func(c *Config, v string) (err error) { c.LabAllowRemote, err = parseBool(v); return err }},
		{name: "lab-trace", arg: "file", usage: "append to this file what happens to locks and stock, one JSON object per line; in lab mode only",
			set: func(c *Config, v string) error { c.LabTrace = v; return nil }},
		{name: "lab-name", arg: "name", usage: "what this process is called in -lab-trace (default api-PID)",
			set: func(c *Config, v string) error { c.LabName = v; return nil }},
		{name: "jwt-secret", arg: "secret", usage: fmt.Sprintf("HS256 secret of the buyers' tokens, %d bytes or more", minJWTSecret), secret: true,
			set: func(c *Config, v string) error { c.JWTSecret = v; return checkSecret(v, minJWTSecret) }},
		{name: "admin-token", arg: "token", usage: fmt.Sprintf("bearer token of admin calls, %d bytes or more", minAdminToken), secret: true,
			set: func(c *Config, v string) error { c.AdminToken = v; return checkHeaderSecret(v, minAdminToken) }},
		{name: "ids", arg: "kind", usage: "what mints ids: sonyflake, or redis-counter, which asks Redis for each (default sonyflake)",
			set: func(c *Config, v string) error { c.IDs = v; return oneOf(v, idsSonyflake, idsRedisCounter) }},
		{name: "log-level", arg: "level", usage: "debug, info, warn or error (default info; embedded: warn)",
			set: func(c *Config, v string) error {
				if c.LogLevel.UnmarshalText([]byte(v)) != nil { // that error quotes the value, which may be a secret by mistake
					return errors.New("want debug, info, warn or error")
				}
				return nil
			}},
	}, redisSettings(), mysqlSettings(), limitSettings(), boundSettings(), labSettings(), admissionSettings(), paymentSettings(), stopSettings())
}

// ParseConfig parses the settings of the service and checks that they fit together.
func ParseConfig(args, environ []string, help io.Writer) (Config, error) {
	c, err := parseSettings(flag.NewFlagSet("api", flag.ContinueOnError), args, environ, help)
	if err != nil {
		return c, err
	}
	return c, c.validate()
}

// validate checks the settings that depend on each other.
func (c *Config) validate() error {
	switch {
	case c.MySQLDSN == "" && len(c.RedisAddrs) > 0:
		return errors.New("SECKILL_MYSQL_DSN is missing: SECKILL_REDIS_ADDRS is set, and the service needs both, or neither to run embedded")
	case c.MySQLDSN != "" && len(c.RedisAddrs) == 0:
		return errors.New("SECKILL_REDIS_ADDRS is missing: SECKILL_MYSQL_DSN is set, and the service needs both, or neither to run embedded")
	case c.RedisMaster != "" && c.Embedded:
		return errors.New("SECKILL_REDIS_MASTER is set, but SECKILL_REDIS_ADDRS names no sentinels")
	case c.RedisDB > 0 && (c.Redis.Cluster || len(c.RedisAddrs) > 1 && c.RedisMaster == "" || c.Embedded):
		return errors.New("SECKILL_REDIS_DB is set, and a cluster and the embedded Redis have only database 0: use SECKILL_KEY_PREFIX to share a cluster")
	case c.WaitReplicas > 0 && c.Embedded:
		return errors.New("SECKILL_REDIS_WAIT_REPLICAS is set, and the embedded Redis has no replicas: set SECKILL_REDIS_ADDRS and SECKILL_MYSQL_DSN too")
	case c.DebugAddr != "" && c.DebugAddr == c.Addr:
		return fmt.Errorf("SECKILL_DEBUG_ADDR is the same as SECKILL_ADDR, %s: choose another port", c.Addr)
	case !c.Embedded && c.JWTSecret == "":
		return fmt.Errorf("SECKILL_JWT_SECRET is missing: with real stores buyers need tokens signed with a secret of %d bytes or more", minJWTSecret)
	case !c.Embedded && !c.Lab && c.AdminToken == "":
		return fmt.Errorf("SECKILL_ADMIN_TOKEN is missing: outside lab mode vouchers are created with a token of %d bytes or more", minAdminToken)
	case c.Embedded && !c.Lab && (c.JWTSecret == "" || c.AdminToken == ""):
		return errors.New("SECKILL_LAB is off: then SECKILL_JWT_SECRET and SECKILL_ADMIN_TOKEN are needed, embedded too")
	case c.Lab && !c.LabAllowRemote && !loopback(c.Addr):
		return fmt.Errorf("lab mode is on and SECKILL_ADDR is %s, beyond loopback: anybody could sell and order; "+
			"listen on 127.0.0.1, switch SECKILL_LAB off, or set SECKILL_LAB_ALLOW_REMOTE=1", c.Addr)
	case c.LabTrace != "" && !c.Lab:
		return errors.New("SECKILL_LAB_TRACE is set and SECKILL_LAB is off: orders are recorded in lab mode only")
	}
	for _, err := range []error{c.Payment.validate(), c.Redis.validate(c), c.MySQL.TLS.validate("SECKILL_MYSQL_TLS")} {
		if err != nil {
			return err
		}
	}
	return c.checkDistinct()
}

// warn logs the settings that have no effect.
func (c *Config) warn(log *slog.Logger) {
	for _, name := range c.Unknown {
		log.Warn("unknown setting", "variable", name)
	}
	if n := len(c.LockRedisAddrs); n > 0 && n < red.MinNodes {
		log.Warn("too few nodes for the lock red", "variable", "SECKILL_LOCK_REDIS_ADDRS", "nodes", n, "needed", red.MinNodes)
	}
}

// secret returns the secret for signing tokens. If none is configured, it is random and valid until the process stops.
func (c *Config) secret() []byte {
	if c.JWTSecret != "" {
		return []byte(c.JWTSecret)
	}
	return []byte(rand.Text() + rand.Text())
}
