package service

import (
	"bytes"
	"flag"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit/fail"
)

const secret = "a secret that is long enough to be one"

const token = "an administrator"

// Those of the payment provider.
const paymentKey = "key of this shop at its provider"

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

const dsn = "seckill:hush-hush@tcp(127.0.0.1:3306)/seckill"

// production is a complete configuration with real stores.
func production(change ...string) []string {
	return append([]string{
		"PATH=/bin", "SECKILL_TEST_MYSQL_ROOT=/somewhere",
		"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=127.0.0.1:6379",
		"SECKILL_JWT_SECRET=" + secret, "SECKILL_ADMIN_TOKEN=" + token,
	}, change...)
}

func TestConfigDefaults(t *testing.T) {
	c, err := ParseConfig(nil, []string{"PATH=/bin"}, io.Discard)
	fail.NowIf(t, err)
	if !c.Embedded || !c.Lab || c.Addr != "127.0.0.1:8080" || c.LogLevel != slog.LevelWarn || c.ShutdownDelay != 0 {
		t.Errorf("embedded: %+v", c)
	}
	if a, b := c.secret(), c.secret(); len(a) < minJWTSecret || bytes.Equal(a, b) {
		t.Error("the secret of an embedded service is not drawn anew")
	}
	c, err = ParseConfig(nil, production(), io.Discard)
	fail.NowIf(t, err)
	if c.Embedded || c.Lab || c.LogLevel != slog.LevelInfo || len(c.Unknown) != 0 || c.ShutdownDelay != 5*time.Second {
		t.Errorf("with real stores: %+v", c)
	}
}

func TestConfigFlagBeatsEnvironment(t *testing.T) {
	env := production("SECKILL_ADDR=127.0.0.1:1111", "SECKILL_LAB=1", "SECKILL_REDIS_ADDRS=a:1, b:2,c:3", "SECKILL_JWT_SECERT=typo")
	c, err := ParseConfig([]string{"-addr", "127.0.0.1:2222", "-lab=false", "-redis-master", "main"}, env, io.Discard)
	fail.NowIf(t, err)
	if c.Addr != "127.0.0.1:2222" || c.Lab || strings.Join(c.RedisAddrs, " ") != "a:1 b:2 c:3" || c.RedisMaster != "main" {
		t.Errorf("%+v", c)
	}
	fail.Unequal(t, strings.Join(c.Unknown, " "), "SECKILL_JWT_SECERT", "unknown variables")
	if c, err := ParseConfig([]string{"-lab"}, production(), io.Discard); err != nil || !c.Lab {
		t.Errorf("-lab alone: %+v, %v", c, err)
	}
}

func TestConfigOfAdmission(t *testing.T) {
	c, err := ParseConfig([]string{"-claim-idle", "2s", "-forget-after", "90m"},
		production("SECKILL_INSTANCE=api-1.eu_west", "SECKILL_MAX_PENDING=500", "SECKILL_MAX_IN_FLIGHT=64", "SECKILL_ORDERS_PER_ENTRY=1", "SECKILL_CLAIM_IDLE=1m"), io.Discard)
	if want := (admissionConfig{MaxPending: 500, MaxInFlight: 64, OrdersPerEntry: 1, Instance: "api-1.eu_west", ClaimIdle: 2 * time.Second, ForgetAfter: 90 * time.Minute}); err != nil || c.Admission != want {
		t.Errorf("%+v, %v", c.Admission, err)
	}
}

// Each invalid setting prevents the start with an error that names it and shows no secret.
func TestConfigErrorsNameTheSetting(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		env  []string
		want []string
	}{
		{"unknown flag", []string{"-adr", "x"}, nil, []string{"-adr"}},
		{"stray argument", []string{"serve"}, nil, []string{"serve", "-help"}},
		{"password of two words", []string{"-redis-password", "hush", "hush-hush"}, nil, []string{"argument 3", "-help"}},
		{"empty flag", []string{"-addr", ""}, nil, []string{"-addr", "empty"}},
		{"address without port", []string{"-addr", "localhost"}, nil, []string{"-addr", "host:port"}},
		{"port out of range", nil, []string{"SECKILL_ADDR=localhost:70000"}, []string{"SECKILL_ADDR", "0 to 65535"}},
		{"port not a number", nil, []string{"SECKILL_DEBUG_ADDR=localhost:http"}, []string{"SECKILL_DEBUG_ADDR", "0 to 65535"}},
		{"second address without port", nil, production("SECKILL_REDIS_ADDRS=a:1,b"), []string{"SECKILL_REDIS_ADDRS", "address 2"}},
		{"one address for both", []string{"-debug-addr", "127.0.0.1:8080"}, nil, []string{"SECKILL_DEBUG_ADDR", "SECKILL_ADDR"}},
		{"redis twice", nil, production("SECKILL_REDIS_ADDRS=a:1,a:1"), []string{"SECKILL_REDIS_ADDRS", "twice"}},
		{"redis list with a hole", nil, production("SECKILL_REDIS_ADDRS=a:1,,b:2"), []string{"SECKILL_REDIS_ADDRS", "host:port"}},
		{"redis alone", nil, []string{"SECKILL_REDIS_ADDRS=a:1"}, []string{"SECKILL_MYSQL_DSN is missing"}},
		{"database alone", nil, []string{"SECKILL_MYSQL_DSN=" + dsn}, []string{"SECKILL_REDIS_ADDRS is missing"}},
		{"master without sentinels", nil, []string{"SECKILL_REDIS_MASTER=main"}, []string{"SECKILL_REDIS_MASTER", "SECKILL_REDIS_ADDRS"}},
		{"replicas that are no number", nil, production("SECKILL_REDIS_WAIT_REPLICAS=one"), []string{"SECKILL_REDIS_WAIT_REPLICAS", "one", "0 to 16"}},
		{"too many replicas", []string{"-redis-wait-replicas", "17"}, production(), []string{"-redis-wait-replicas", "0 to 16"}},
		{"fewer replicas than none", []string{"-redis-wait-replicas", "-1"}, production(), []string{"-redis-wait-replicas", "0 to 16"}},
		{"replicas of the embedded Redis", nil, []string{"SECKILL_REDIS_WAIT_REPLICAS=1"}, []string{"SECKILL_REDIS_WAIT_REPLICAS", "embedded", "SECKILL_REDIS_ADDRS"}},
		{"no room for an order", []string{"-max-pending", "0"}, nil, []string{"-max-pending", "1 to 10000000"}},
		{"room for too many", nil, []string{"SECKILL_MAX_PENDING=10000001"}, []string{"SECKILL_MAX_PENDING", "1 to 10000000"}},
		{"room for half an order", nil, []string{"SECKILL_MAX_PENDING=1.5"}, []string{"SECKILL_MAX_PENDING", "1.5", "1 to 10000000"}},
		{"nobody may wait", nil, []string{"SECKILL_MAX_IN_FLIGHT=0"}, []string{"SECKILL_MAX_IN_FLIGHT", "1 to 1000000"}},
		{"entries without orders", nil, []string{"SECKILL_ORDERS_PER_ENTRY=0"}, []string{"SECKILL_ORDERS_PER_ENTRY", "1 to 512"}},
		{"too many may wait", []string{"-max-in-flight", "1000001"}, nil, []string{"-max-in-flight", "1 to 1000000"}},
		{"claim without a unit", []string{"-claim-idle", "30"}, nil, []string{"-claim-idle", "5s"}},
		{"claim too soon", nil, []string{"SECKILL_CLAIM_IDLE=999ms"}, []string{"SECKILL_CLAIM_IDLE", "1s to 1h"}},
		{"claim too late", nil, []string{"SECKILL_CLAIM_IDLE=61m"}, []string{"SECKILL_CLAIM_IDLE", "1s to 1h"}},
		{"forgotten at once", nil, []string{"SECKILL_FORGET_AFTER=10ms"}, []string{"SECKILL_FORGET_AFTER", "1s to 8784h"}},
		{"forgotten without a unit", []string{"-forget-after", "24"}, nil, []string{"-forget-after", "24h"}},
		{"instance of two words", nil, []string{"SECKILL_INSTANCE=api 1"}, []string{"SECKILL_INSTANCE", "letters"}},
		{"instance too long", nil, []string{"SECKILL_INSTANCE=" + strings.Repeat("a", 65)}, []string{"SECKILL_INSTANCE", "1 to 64"}},
		{"instance of two lines", []string{"-instance", "api\n"}, nil, []string{"-instance", "letters"}},
		{"lab neither on nor off", nil, []string{"SECKILL_LAB=perhaps"}, []string{"SECKILL_LAB", "perhaps"}},
		{"lab for everybody", []string{"-addr", ":8080"}, nil, []string{"lab mode", "SECKILL_LAB_ALLOW_REMOTE"}},
		{"lab for everybody, real stores", []string{"-addr", "0.0.0.0:8080", "-lab"}, production(), []string{"lab mode", "loopback"}},
		{"no secret", nil, []string{"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=a:1", "SECKILL_LAB=1"}, []string{"SECKILL_JWT_SECRET is missing"}},
		{"short secret", nil, production("SECKILL_JWT_SECRET=hunter2"), []string{"SECKILL_JWT_SECRET", "too short", "7 bytes"}},
		{"no admin token", nil, []string{"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=a:1", "SECKILL_JWT_SECRET=" + secret}, []string{"SECKILL_ADMIN_TOKEN is missing"}},
		{"short admin token", nil, production("SECKILL_ADMIN_TOKEN=hunter2"), []string{"SECKILL_ADMIN_TOKEN", "too short"}},
		{"embedded without lab and secrets", []string{"-lab=0"}, nil, []string{"SECKILL_LAB", "SECKILL_JWT_SECRET"}},
		{"ids", []string{"-ids", "uuid"}, nil, []string{"-ids", "uuid", "redis-counter"}},
		{"watchdog without a unit", []string{"-lock-watchdog", "500"}, nil, []string{"-lock-watchdog", "500ms"}},
		{"watchdog too short", nil, []string{"SECKILL_LOCK_WATCHDOG=99ms"}, []string{"SECKILL_LOCK_WATCHDOG", "100ms to 1h"}},
		{"rate that is none", []string{"-user-rate", "NaN"}, nil, []string{"-user-rate", "0.001"}},
		{"rate of nothing", nil, []string{"SECKILL_USER_RATE=0"}, []string{"SECKILL_USER_RATE", "0.001"}},
		{"watchdog too long", nil, []string{"SECKILL_LOCK_WATCHDOG=61m"}, []string{"SECKILL_LOCK_WATCHDOG", "100ms to 1h"}},
		{"lab host with a port", []string{"-lab-hosts", "api-1:8080"}, nil, []string{"-lab-hosts", "name 1 ", "without a port"}},
		{"lab hosts with a hole", nil, []string{"SECKILL_LAB_HOSTS=api-1,,api-2"}, []string{"SECKILL_LAB_HOSTS", "no host name"}},
		{"trace outside the lab", []string{"-lab-trace", "events"}, production(), []string{"SECKILL_LAB_TRACE", "SECKILL_LAB is off"}},
		{"delay without a unit", nil, []string{"SECKILL_SHUTDOWN_DELAY=5"}, []string{"SECKILL_SHUTDOWN_DELAY", "5s"}},
		{"delay of an hour", []string{"-shutdown-delay", "1h"}, nil, []string{"-shutdown-delay", "0s to 10m"}},
		{"no time for requests", nil, []string{"SECKILL_SHUTDOWN_TIMEOUT=0s"}, []string{"SECKILL_SHUTDOWN_TIMEOUT", "100ms"}},
		{"eviction neither allowed nor not", nil, []string{"SECKILL_ALLOW_EVICTION=perhaps"}, []string{"SECKILL_ALLOW_EVICTION", "perhaps"}},
		{"provider that is no URL", nil, []string{"SECKILL_PAYMENT_URL=pay.example.com"}, []string{"SECKILL_PAYMENT_URL", "https://host"}},
		{"provider with a password", nil, []string{"SECKILL_PAYMENT_URL=https://me:hunter2@pay.example.com"}, []string{"SECKILL_PAYMENT_URL", "without user"}},
		{"provider without a key", nil, []string{"SECKILL_PAYMENT_URL=https://pay.example.com", "SECKILL_PAYMENT_WEBHOOK_SECRET=" + webhookSecret}, []string{"SECKILL_PAYMENT_API_KEY is missing"}},
		{"provider without a secret", nil, []string{"SECKILL_PAYMENT_URL=https://pay.example.com", "SECKILL_PAYMENT_API_KEY=" + paymentKey}, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET is missing"}},
		{"key without a provider", nil, []string{"SECKILL_PAYMENT_API_KEY=" + paymentKey}, []string{"SECKILL_PAYMENT_API_KEY", "SECKILL_PAYMENT_URL"}},
		{"webhook secret without a provider", nil, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET=" + webhookSecret}, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET", "SECKILL_PAYMENT_URL"}},
		{"short key", nil, []string{"SECKILL_PAYMENT_API_KEY=hunter2"}, []string{"SECKILL_PAYMENT_API_KEY", "too short"}},
		{"webhook secret of another kind", nil, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET=hunter2"}, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET", "whsec_"}},
		{"short webhook secret", nil, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET=whsec_aHVudGVyMg=="}, []string{"SECKILL_PAYMENT_WEBHOOK_SECRET", "7 bytes"}},
		{"key that is the admin token", nil, production("SECKILL_PAYMENT_URL=https://pay.example.com", "SECKILL_PAYMENT_API_KEY="+token, "SECKILL_PAYMENT_WEBHOOK_SECRET="+webhookSecret), []string{"SECKILL_ADMIN_TOKEN", "SECKILL_PAYMENT_API_KEY"}},
		{"currency", []string{"-payment-currency", "euro"}, nil, []string{"-payment-currency", "three letters"}},
		{"yen", nil, []string{"SECKILL_PAYMENT_CURRENCY=JPY"}, []string{"SECKILL_PAYMENT_CURRENCY", "minor unit of JPY"}},
		{"user without a password", nil, production("SECKILL_REDIS_USERNAME=shop"), []string{"SECKILL_REDIS_PASSWORD is missing", "SECKILL_REDIS_USERNAME"}},
		{"password of no sentinel", nil, production("SECKILL_REDIS_SENTINEL_PASSWORD=hunter2"), []string{"SECKILL_REDIS_SENTINEL_PASSWORD", "SECKILL_REDIS_MASTER"}},
		{"sentinel's user without a password", nil, production("SECKILL_REDIS_MASTER=main", "SECKILL_REDIS_SENTINEL_USERNAME=shop"), []string{"SECKILL_REDIS_SENTINEL_PASSWORD is missing"}},
		{"cluster with sentinels", nil, production("SECKILL_REDIS_MASTER=main", "SECKILL_REDIS_CLUSTER=1"), []string{"SECKILL_REDIS_CLUSTER", "SECKILL_REDIS_MASTER"}},
		{"cluster in the process", nil, []string{"SECKILL_REDIS_CLUSTER=1"}, []string{"SECKILL_REDIS_CLUSTER", "SECKILL_REDIS_ADDRS"}},
		{"authority without TLS", nil, production("SECKILL_REDIS_TLS_CA=/ca.pem"), []string{"SECKILL_REDIS_TLS_CA", "SECKILL_REDIS_TLS is off"}},
		{"database's name without TLS", nil, production("SECKILL_MYSQL_TLS_SERVER_NAME=db"), []string{"SECKILL_MYSQL_TLS_SERVER_NAME", "SECKILL_MYSQL_TLS is off"}},
		{"certificate without a key", nil, production("SECKILL_MYSQL_TLS=1", "SECKILL_MYSQL_TLS_CERT=/c.pem"), []string{"SECKILL_MYSQL_TLS_KEY is missing"}},
		{"key without a certificate", nil, production("SECKILL_REDIS_TLS=1", "SECKILL_REDIS_TLS_KEY=/k.pem"), []string{"SECKILL_REDIS_TLS_CERT is missing"}},
		{"no connections", nil, []string{"SECKILL_MYSQL_READERS=0"}, []string{"SECKILL_MYSQL_READERS", "1 to 10000"}},
		{"too many connections", []string{"-redis-pool", "10001"}, nil, []string{"-redis-pool", "1 to 10000"}},
		{"idle for ever", nil, []string{"SECKILL_IDLE_TIMEOUT=0s"}, []string{"SECKILL_IDLE_TIMEOUT", "1s to 1h"}},
		{"idle without a unit", nil, []string{"SECKILL_IDLE_TIMEOUT=75"}, []string{"SECKILL_IDLE_TIMEOUT", "75s"}},
		{"log level", nil, []string{"SECKILL_LOG_LEVEL=loud"}, []string{"SECKILL_LOG_LEVEL", "loud"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ParseConfig(tc.args, tc.env, io.Discard)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			for _, hidden := range []string{"hunter2", "hush-hush", secret, paymentKey, webhookSecret, "aHVudGVyMg"} {
				if strings.Contains(err.Error(), hidden) {
					t.Errorf("%q shows a secret", err)
				}
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.8.9.1:1": true, "[::1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "192.168.0.1:1": false, "example.org:1": false,
	} {
		fail.Unequal(t, loopback(addr), want, "loopback(%q)", addr)
	}
}

func TestHelpShowsEverySetting(t *testing.T) {
	var help strings.Builder
	fail.NowUnless(t, fail.Of(ParseConfig([]string{"-help"}, nil, &help)), flag.ErrHelp)
	for _, s := range settings() {
		if !strings.Contains(help.String(), "-"+s.name) || !strings.Contains(help.String(), s.env()) {
			t.Errorf("the help does not show %s", s.name)
		}
		fail.Unequal(t, strings.Contains(help.String(), s.envFile()), s.secret, "the help shows %s", s.envFile())
	}
}

func TestSandboxBehaviour(t *testing.T) {
	env := []string{"SECKILL_PAYMENT_API_KEY=" + paymentKey, "SECKILL_PAYMENT_WEBHOOK_SECRET=" + webhookSecret}
	for text, want := range map[string]sandbox.Behaviour{`{"duplicate":2,"lose":0.1}`: {Duplicate: 2, Lose: 0.1}, `{}`: {}} {
		var c sandboxCommand
		if _, err := c.parse([]string{"-behaviour", text}, env, io.Discard); err != nil || c.behaviour != want {
			t.Errorf("%s: %+v, %v", text, c.behaviour, err)
		}
	}
	for _, text := range []string{`{"duplicates":2}`, `{"lose":2}`, `{} {}`, `{}x`, `[]`, `{`} {
		var c sandboxCommand
		if _, err := c.parse([]string{"-behaviour", text}, env, io.Discard); err == nil || !strings.Contains(err.Error(), "-behaviour") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The URL for traces wins over that of all signals, and is taken as it is.
func TestTracesGoWhereOpenTelemetrySays(t *testing.T) {
	const base, whole = "OTEL_EXPORTER_OTLP_ENDPOINT=http://a:4318/otlp/", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://b/traces"
	for _, tc := range []struct {
		env  []string
		want tracesConfig
	}{
		{nil, tracesConfig{}},
		{[]string{base}, tracesConfig{"http://a:4318/otlp/v1/traces", tracesEndpoint}},
		{[]string{whole}, tracesConfig{"https://b/traces", tracesURL}},
		{[]string{base, whole}, tracesConfig{"https://b/traces", tracesURL}},
	} {
		if c, err := ParseConfig(nil, tc.env, io.Discard); err != nil || c.Traces != tc.want || len(c.Unknown) > 0 {
			t.Errorf("%v: %+v, %v; want %+v", tc.env, c.Traces, err, tc.want)
		}
	}
}

func TestConfigOfStores(t *testing.T) {
	c, err := ParseConfig(nil, production("SECKILL_REDIS_CLUSTER=1", "SECKILL_REDIS_USERNAME=shop", "SECKILL_REDIS_PASSWORD=hush-hush-2", "SECKILL_REDIS_POOL=8",
		"SECKILL_MYSQL_READERS=9", "SECKILL_MYSQL_WRITERS=10", "SECKILL_MYSQL_LOCKS=11", "SECKILL_IDLE_TIMEOUT=75s",
		"SECKILL_MYSQL_TLS=1", "SECKILL_MYSQL_TLS_CA=/ca", "SECKILL_MYSQL_TLS_SERVER_NAME=db", "SECKILL_MYSQL_TLS_CERT=/cert", "SECKILL_MYSQL_TLS_KEY=/key"), io.Discard)
	fail.NowIf(t, err)
	redis := redisConfig{Cluster: true, Username: "shop", Pool: 8}
	mysql := mysqlConfig{TLS: tlsConfig{true, "/ca", "db", "/cert", "/key"}, Readers: 9, Writers: 10, Locks: 11}
	if c.Redis != redis || c.MySQL != mysql || c.IdleTimeout != 75*time.Second {
		t.Errorf("%+v, %+v, %v", c.Redis, c.MySQL, c.IdleTimeout)
	}
	plain, err := c.Redis.TLS.load(redisTLS)
	if plain != nil || err != nil {
		t.Errorf("TLS that is off: %v, %v", plain, err)
	}
	if _, err := c.MySQL.TLS.load("SECKILL_MYSQL_TLS"); err == nil || !strings.Contains(err.Error(), "SECKILL_MYSQL_TLS_CA: open /ca") {
		t.Errorf("an authority that is not there: %v", err)
	}
}

// Every pair of what the settings say and what a server is, is right or has words.
func TestMisfit(t *testing.T) {
	single, several := Config{RedisAddrs: []string{"a:1"}}, Config{RedisAddrs: []string{"a:1", "b:1"}}
	cluster, sentinels := single, several
	cluster.Redis.Cluster, sentinels.RedisMaster = true, "main"
	for _, tc := range []struct {
		cfg  Config
		mode string
		says string
	}{
		{single, "standalone", ""}, {single, "cluster", "SECKILL_REDIS_CLUSTER=1"}, {single, "sentinel", "set SECKILL_REDIS_MASTER"},
		{several, "standalone", "SECKILL_LOCK_REDIS_ADDRS"}, {several, "cluster", ""}, {several, "sentinel", "set SECKILL_REDIS_MASTER"},
		{cluster, "standalone", "without SECKILL_REDIS_CLUSTER"}, {cluster, "cluster", ""},
		{sentinels, "standalone", "no sentinel"}, {sentinels, "cluster", "no sentinel"}, {sentinels, "sentinel", ""},
	} {
		if got := misfit(tc.cfg, tc.mode); (got == "") != (tc.says == "") || !strings.Contains(got, tc.says) {
			t.Errorf("%v %v %q, a server in mode %s: %q, want %q", tc.cfg.RedisAddrs, tc.cfg.Redis.Cluster, tc.cfg.RedisMaster, tc.mode, got, tc.says)
		}
	}
}
