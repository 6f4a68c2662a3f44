package main

import (
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/red"
)

// config is everything the service can be told.
type config struct {
	Addr           string
	DebugAddr      string
	MySQLDSN       string
	RedisAddrs     []string
	RedisMaster    string
	RedisPassword  string
	WaitReplicas   int // that must have an order before its buyer is told
	LockRedisAddrs []string
	ZooKeeperAddrs []string
	LockWatchdog   time.Duration // 0: each mechanism's own
	Lab            bool
	LabAllowRemote bool
	LabTrace       string // a file, "" for none
	LabName        string
	JWTSecret      string
	AdminToken     string
	UserRate       float64 // orders asked for per second; 0: any number
	Admission      admissionConfig
	LogLevel       slog.Level
	IDs            string

	// TracesEndpoint is the base URL of the collector that traces are sent to, "" for none.
	TracesEndpoint string

	// Embedded: neither a database nor Redis was given.
	Embedded bool
	// Unknown are the SECKILL_ variables in the environment that mean nothing.
	Unknown []string
}

// Shortest secrets that are accepted. HS256 wants a key as long as its hash.
const (
	minJWTSecret  = 32
	minAdminToken = 16
)

// minLockWatchdog leaves a renewal time to fail and to be repeated.
const minLockWatchdog = 100 * time.Millisecond

// setting is one flag and the environment variable of the same name.
type setting struct {
	name, arg, usage string
	secret           bool
	set              func(c *config, value string) error
}

// env is the variable's name: SECKILL_ADDR for -addr.
func (s setting) env() string {
	return "SECKILL_" + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

func settings() []setting {
	return slices.Concat([]setting{
		{name: "addr", arg: "host:port", usage: "where to serve (default 127.0.0.1:8080)",
			set: func(c *config, v string) error { c.Addr = v; return checkAddr(v) }},
		{name: "debug-addr", arg: "host:port", usage: "where to serve /livez, /readyz, /metrics and /debug/pprof; without it the first three are served with the API",
			set: func(c *config, v string) error { c.DebugAddr = v; return checkAddr(v) }},
		{name: "mysql-dsn", arg: "DSN", usage: "MySQL or MariaDB DSN, user:password@tcp(host:port)/database", secret: true,
			set: func(c *config, v string) error { c.MySQLDSN = v; return nil }},
		{name: "redis-addrs", arg: "host:port,…", usage: "Redis: one address is a single node, several are a cluster, with -redis-master they are sentinels",
			set: func(c *config, v string) (err error) { c.RedisAddrs, err = addrList(v); return err }},
		{name: "redis-master", arg: "name", usage: "name of the primary that the sentinels watch",
			set: func(c *config, v string) error { c.RedisMaster = v; return nil }},
		{name: "redis-password", arg: "password", usage: "password of Redis", secret: true,
			set: func(c *config, v string) error { c.RedisPassword = v; return nil }},
		{name: "redis-wait-replicas", arg: "number", usage: fmt.Sprintf("how many replicas of Redis must have an order that was admitted before its buyer is told, 0 to %d (default 0: the primary's word is enough)", maxWaitReplicas),
			set: func(c *config, v string) (err error) {
				c.WaitReplicas, err = parseCount(v, maxWaitReplicas)
				return err
			}},
		{name: "lock-redis-addrs", arg: "host:port,…", usage: "independent Redis nodes for the locks multi and red",
			set: func(c *config, v string) (err error) { c.LockRedisAddrs, err = addrList(v); return err }},
		{name: "zookeeper-addrs", arg: "host:port,…", usage: "ZooKeeper servers for the locks zk-node and zk-queue",
			set: func(c *config, v string) (err error) { c.ZooKeeperAddrs, err = addrList(v); return err }},
		{name: "lock-watchdog", arg: "duration", usage: fmt.Sprintf("lease of the locks that are renewed while they are held, %v to %v (default: each mechanism's own, 30s)", minLockWatchdog, lock.MaxTTL),
			set: func(c *config, v string) (err error) { c.LockWatchdog, err = parseWatchdog(v); return err }},
		{name: "lab", arg: "", usage: "lab mode: unsafe policies, faults, X-User-ID and admin calls without a token (default: only when embedded)",
			set: func(c *config, v string) (err error) { c.Lab, err = parseBool(v); return err }},
		{name: "lab-allow-remote", arg: "", usage: "let lab mode listen beyond loopback",
			set: func(c *config, v string) (err error) { c.LabAllowRemote, err = parseBool(v); return err }},
		{name: "lab-trace", arg: "file", usage: "append to this file what happens to locks and stock, one JSON object per line; in lab mode only",
			set: func(c *config, v string) error { c.LabTrace = v; return nil }},
		{name: "lab-name", arg: "name", usage: "what this process is called in -lab-trace (default api-PID)",
			set: func(c *config, v string) error { c.LabName = v; return nil }},
		{name: "jwt-secret", arg: "secret", usage: fmt.Sprintf("HS256 secret of the buyers' tokens, %d bytes or more", minJWTSecret), secret: true,
			set: func(c *config, v string) error { c.JWTSecret = v; return atLeast(v, minJWTSecret) }},
		{name: "admin-token", arg: "token", usage: fmt.Sprintf("bearer token of admin calls, %d bytes or more", minAdminToken), secret: true,
			set: func(c *config, v string) error { c.AdminToken = v; return atLeast(v, minAdminToken) }},
		{name: "user-rate", arg: "number", usage: "orders that each user may ask this process for per second, and twice as many at once (default: any number)",
			set: func(c *config, v string) (err error) { c.UserRate, err = parseRate(v); return err }},
		{name: "ids", arg: "kind", usage: "what mints ids: sonyflake, or redis-counter, which asks Redis for each (default sonyflake)",
			set: func(c *config, v string) error { c.IDs = v; return oneOf(v, idsSonyflake, idsRedisCounter) }},
		{name: "log-level", arg: "level", usage: "debug, info, warn or error (default info; embedded: warn)",
			set: func(c *config, v string) error { return c.LogLevel.UnmarshalText([]byte(v)) }},
	}, admissionSettings())
}

// parseConfig reads the settings of the service and checks them as a whole.
func parseConfig(args, environ []string, help io.Writer) (config, error) {
	c, err := parseSettings(flag.NewFlagSet("api", flag.ContinueOnError), args, environ, help)
	if err != nil {
		return c, err
	}
	return c, c.validate()
}

// parseSettings reads the flags, among them those that a command has put there
// already, and, for those not given, the environment. Every error names the setting
// as its user wrote it, and none shows a secret.
func parseSettings(flags *flag.FlagSet, args, environ []string, help io.Writer) (config, error) {
	c := config{Addr: "127.0.0.1:8080", IDs: idsSonyflake}
	all := settings()
	flags.SetOutput(io.Discard)
	flags.Usage = func() { usage(help, all) }
	given := map[string]string{}
	for _, s := range all {
		note := func(v string) error { given[s.name] = v; return nil }
		if s.arg == "" { // a switch: -lab alone means on
			flags.BoolFunc(s.name, s.usage, note)
		} else {
			flags.Func(s.name, s.usage, note)
		}
	}
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q; try -help", flags.Arg(0))
	}

	env := environment(environ)
	was := map[string]bool{}
	for _, s := range all {
		value, asFlag := given[s.name]
		source := "-" + s.name
		if !asFlag {
			value, source = env[s.env()], s.env()
		}
		delete(env, s.env())
		if value == "" {
			if asFlag {
				return c, fmt.Errorf("%s is empty", source)
			}
			continue
		}
		if err := s.set(&c, value); err != nil {
			if s.secret {
				return c, fmt.Errorf("%s: %w", source, err)
			}
			return c, fmt.Errorf("%s is %q: %w", source, value, err)
		}
		was[s.name] = true
	}
	c.TracesEndpoint = env[tracesEndpoint]
	delete(env, tracesEndpoint)
	for name := range env {
		c.Unknown = append(c.Unknown, name)
	}
	slices.Sort(c.Unknown)

	c.Embedded = c.MySQLDSN == "" && len(c.RedisAddrs) == 0
	if c.Embedded && !was["lab"] {
		c.Lab = true
	}
	if c.Embedded && !was["log-level"] {
		c.LogLevel = slog.LevelWarn
	}
	return c, nil
}

// validate checks what concerns several settings at once.
func (c *config) validate() error {
	switch {
	case c.MySQLDSN == "" && len(c.RedisAddrs) > 0:
		return errors.New("SECKILL_MYSQL_DSN is missing: SECKILL_REDIS_ADDRS is set, and the service needs both, or neither to run embedded")
	case c.MySQLDSN != "" && len(c.RedisAddrs) == 0:
		return errors.New("SECKILL_REDIS_ADDRS is missing: SECKILL_MYSQL_DSN is set, and the service needs both, or neither to run embedded")
	case c.RedisMaster != "" && c.Embedded:
		return errors.New("SECKILL_REDIS_MASTER is set, but SECKILL_REDIS_ADDRS names no sentinels")
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
	return nil
}

// warn says what was set to no effect.
func (c *config) warn(log *slog.Logger) {
	for _, name := range c.Unknown {
		log.Warn("no such setting", "variable", name)
	}
	if n := len(c.LockRedisAddrs); n > 0 && n < red.MinNodes {
		log.Warn("too few nodes for the lock red", "variable", "SECKILL_LOCK_REDIS_ADDRS", "nodes", n, "needed", red.MinNodes)
	}
}

// secret is what tokens are signed with: one of this process's own, good until it
// stops, where none was given.
func (c *config) secret() []byte {
	if c.JWTSecret != "" {
		return []byte(c.JWTSecret)
	}
	return []byte(rand.Text() + rand.Text())
}

func usage(w io.Writer, all []setting) {
	fmt.Fprint(w, `api serves the flash sale.

usage: api [flags]               serve until interrupted
       api healthcheck [flags]   ask a running server whether it is ready; exit code 0 or 1
       api reconcile [-json] [-dead] [-voucher ID] [flags]
                                 compare what Redis and the database have of each voucher that is sold by
                                 admission; exit code 0 when all balance, 1 when not or when it is not known.
                                 With -dead also the orders that were accepted and rejected: how many the
                                 database has, which is the record, and why, the latest of each voucher, as
                                 far as Redis still has it

Each flag can be given as an environment variable instead. With neither a
database nor Redis the service runs embedded, with SQLite and an in-process
Redis, in lab mode, on loopback.

OTEL_EXPORTER_OTLP_ENDPOINT, http://host:4318 for instance, has traces sent there.

`)
	for _, s := range all {
		fmt.Fprintf(w, "  %s\n        %s\n        %s\n", strings.TrimSpace("-"+s.name+" "+s.arg), s.env(), s.usage)
	}
}

// tracesEndpoint switches traces on. It has the name that OpenTelemetry gives it.
const tracesEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"

// environment picks this program's variables. Those of the tests are not its.
func environment(environ []string) map[string]string {
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST_") || name == tracesEndpoint {
			env[name] = value
		}
	}
	return env
}

func checkAddr(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("want host:port")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("port %q is not a number from 0 to 65535", port)
	} else if strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("port %q has leading zeros", port)
	}
	return nil
}

func addrList(v string) ([]string, error) {
	var addrs []string
	for a := range strings.SplitSeq(v, ",") {
		a = strings.TrimSpace(a)
		if err := checkAddr(a); err != nil {
			return nil, fmt.Errorf("%q: %w", a, err)
		}
		if slices.Contains(addrs, a) {
			return nil, fmt.Errorf("%q stands there twice", a)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

func parseBool(v string) (bool, error) {
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, errors.New("want 1 or 0, true or false")
	}
	return b, nil
}

func parseWatchdog(v string) (time.Duration, error) {
	d, err := time.ParseDuration(v)
	if err != nil {
		return 0, errors.New("want a duration, such as 500ms or 30s")
	}
	if d < minLockWatchdog || d > lock.MaxTTL {
		return 0, fmt.Errorf("want %v to %v", minLockWatchdog, lock.MaxTTL)
	}
	return d, nil
}

// maxWaitReplicas is more than anybody waits for.
const maxWaitReplicas = 16

func parseCount(v string, most int) (int, error) {
	n, err := strconv.Atoi(v)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("want a number from 0 to %d", most)
	}
	return n, nil
}

// maxUserRate is beyond what a user can do, and far from what cannot be counted.
const maxUserRate = 1e6

func parseRate(v string) (float64, error) {
	rate, err := strconv.ParseFloat(v, 64)
	if err != nil || !(rate >= 0.001 && rate <= maxUserRate) {
		return 0, fmt.Errorf("want a number from 0.001 to %.0f", maxUserRate)
	}
	return rate, nil
}

func oneOf(v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("want %s", strings.Join(allowed, " or "))
	}
	return nil
}

func atLeast(secret string, n int) error {
	if len(secret) < n {
		return fmt.Errorf("too short: %d bytes, at least %d", len(secret), n)
	}
	return nil
}

func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
