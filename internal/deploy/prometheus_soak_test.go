package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestSoakAlertsFireOnFaults: the alerts fire in a real Prometheus that scrapes a running service when its servers
// fail. Only the times differ: it scrapes and evaluates every second, and nothing waits for minutes.
func TestSoakAlertsFireOnFaults(t *testing.T) {
	testkit.Soak(t)
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t, "--appendonly", "yes")
	api := startService(t, mariadb, redis)
	alerts := startPrometheus(t, strings.TrimPrefix(api.url, "http://"))
	admission := api.sell(t, `{"flow":"admission"}`)
	locked := api.sell(t, `{}`)
	if status := api.order(t, admission, 1); status != http.StatusAccepted { // the process knows the voucher
		t.Fatalf("the first order: %d", status)
	}
	// At first no instance has answered, and none has compared Redis with the database. For a minute that is no alert,
	// but here nothing waits.
	testkit.Until(t, "the service is scraped, and no alert fires", func() bool {
		return alerts.has(`up{job="seckill"} == 1`) && alerts.has(`seckill_reconcile_last_timestamp_seconds > 0`) && len(alerts.firing()) == 0
	})
	users := 1
	fire := func(t *testing.T, wanted ...string) bool {
		t.Helper()
		firing := alerts.firing()
		return !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(firing, name) })
	}
	buyUntilFiring := func(t *testing.T, voucher string, wanted ...string) {
		t.Helper()
		testkit.Until(t, fmt.Sprint(wanted, " fire"), func() bool {
			if voucher != "" {
				users++
				api.order(t, voucher, users)
			}
			return fire(t, wanted...)
		})
	}
	const nothing = "" // is bought

	// Redis loses three units that the database has. A process compares them every half minute, so that this alert is
	// waited for at the end.
	drifting := api.sell(t, `{"flow":"admission"}`)
	if status := api.order(t, drifting, 1); status != http.StatusAccepted {
		t.Fatalf("the order of the voucher that drifts: %d", status)
	}
	fail.NowIf(t, redis.Client(t).HIncrBy(t.Context(), keyOf(t, redis, drifting), "stock", -3).Err())

	t.Run("a lock is lost", func(t *testing.T) {
		late := api.sell(t, `{"lock":"lua","lock_ttl_ms":50,"faults":[{"point":"critical-section","pause_ms":200}]}`)
		users++
		api.order(t, late, users) // once is enough
		buyUntilFiring(t, nothing, "SeckillLockLost")
	})
	t.Run("an entry cannot be read", func(t *testing.T) {
		entries := keyOf(t, redis, admission) + ":orders"
		fail.NowIf(t, redis.Client(t).XAdd(t.Context(), &goredis.XAddArgs{Stream: entries, Values: []string{"order", "none"}}).Err())
		buyUntilFiring(t, nothing, "SeckillDeadLetters")
	})
	t.Run("Redis is full", func(t *testing.T) {
		client := redis.Client(t)
		fail.NowIf(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err())
		buyUntilFiring(t, locked, "SeckillUnavailable")
		fail.NowIf(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	})
	t.Run("the database is stopped", func(t *testing.T) {
		testkit.Until(t, "orders are accepted", func() bool { users++; return api.order(t, admission, users) == http.StatusAccepted })
		mariadb.Kill()
		buyUntilFiring(t, admission, "SeckillDatabaseTakesNoOrders", "SeckillBacklogOld", "SeckillCheckFails", "SeckillFlowNotServed")
		mariadb.Restart()
		testkit.Until(t, "the alerts end", func() bool { return !fire(t, "SeckillDatabaseTakesNoOrders") && !fire(t, "SeckillFlowNotServed") })
	})
	t.Run("Redis and the database disagree", func(t *testing.T) {
		buyUntilFiring(t, nothing, "SeckillDrift")
	})
	t.Run("the process with the consumers stands still", func(t *testing.T) {
		api.Pause()
		defer api.Resume()
		buyUntilFiring(t, nothing, "SeckillInstanceDown", "SeckillNoInstance")
	})
}

// TestSoakDashboards: every expression of every dashboard has a result in a real Prometheus that scrapes a service
// which has sold under both flows and asked for a payment.
func TestSoakDashboards(t *testing.T) {
	testkit.Soak(t)
	mariadb, redis := testkit.NewMariaDB(t), testkit.NewRedis(t, "--appendonly", "yes")
	payment := []string{"SECKILL_PAYMENT_API_KEY=" + "stand-in-for-the-api-key-of-a-provider", "SECKILL_PAYMENT_WEBHOOK_SECRET=whsec_c3RhbmQtaW4tZm9yLXRoZS13ZWJob29rLXNlY3JldA=="}
	command := testkit.Child(t, "service", payment...)
	command.Args = []string{"payment-sandbox", "-listen", "127.0.0.1:0"}
	sandbox := testkit.Start(t, command)
	provider := sandbox.WaitLine(t, `(http://127\.0\.0\.1:\d+)`)[1]
	api := startService(t, mariadb, redis, append(payment, "SECKILL_PAYMENT_URL="+provider)...)
	shown := startPrometheus(t, strings.TrimPrefix(api.url, "http://"))

	paid := api.put(t, `{"title":"t","stock":100,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","price_cents":100,"pay_within_s":600,"policy":{}}`)
	for i, voucher := range []string{api.sell(t, `{"flow":"admission"}`), api.sell(t, `{}`), paid} {
		if status := api.order(t, voucher, i+1); status != 201 && status != 202 {
			t.Fatalf("an order: %d", status)
		}
	}
	for name, d := range dashboards(t) {
		asked := 0
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				asked++
				expr := strings.NewReplacer("$job", ".*", "$__rate_interval", "30s").Replace(target.Expr)
				testkit.Until(t, fmt.Sprintf("%s, %s: %s has a result", name, p.Title, expr), func() bool { return shown.has(expr) })
			}
		}
		t.Logf("%s: %d expressions", name, asked)
	}
}

// keyOf returns the key of a voucher that is sold by admission.
func keyOf(t *testing.T, redis *testkit.RedisServer, voucher string) string {
	t.Helper()
	keys, err := redis.Client(t).Keys(t.Context(), "*adm:{"+voucher+"}").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the keys of voucher %s are %q, %v", voucher, keys, err)
	}
	return keys[0]
}

// api is a running service in lab mode.
type api struct {
	*testkit.Process
	url string
}

func startService(t *testing.T, mariadb *testkit.SQLServer, redis *testkit.RedisServer, env ...string) api {
	t.Helper()
	p := testkit.StartChild(t, "service", append([]string{
		"SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1", "SECKILL_LOG_LEVEL=error", "SECKILL_SHUTDOWN_DELAY=0s",
		"SECKILL_JWT_SECRET=" + secrets()["SECKILL_JWT_SECRET"], "SECKILL_MYSQL_DSN=" + mariadb.Database(t).DSN, "SECKILL_REDIS_ADDRS=" + redis.Addr(),
	}, env...)...)
	return api{p, p.WaitLine(t, `serving on (http://[^\s,]+)`)[1]}
}

// sell puts a voucher on sale and returns its id.
func (s api) sell(t *testing.T, policy string) string {
	t.Helper()
	return s.put(t, `{"title":"t","stock":1000000,"begin_at":"2020-01-01T00:00:00Z","end_at":"2120-01-01T00:00:00Z","policy":`+policy+`}`)
}

// put creates a voucher and returns its id.
func (s api) put(t *testing.T, voucher string) string {
	t.Helper()
	status, body := harness.Call(t, http.MethodPost, s.url+"/api/v1/vouchers", nil, voucher)
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s", status, body)
	}
	return created.ID
}

func (s api) order(t *testing.T, voucher string, user int) (status int) {
	t.Helper()
	status, _ = harness.Call(t, http.MethodPost, s.url+"/api/v1/vouchers/"+voucher+"/orders", http.Header{"X-User-Id": {fmt.Sprint(user)}}, "")
	return status
}

// prometheus is a running Prometheus with the alerts of this project.
type prometheus struct {
	t   *testing.T
	url string
}

func startPrometheus(t *testing.T, target string) prometheus {
	t.Helper()
	path := testkit.Tool(t, "apt-get install prometheus", "prometheus")
	folder := t.TempDir()
	for name, text := range map[string]string{
		"alerts.yml": impatient(t, read(t, "deploy/prometheus/alerts.yml")),
		"prometheus.yml": `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [alerts.yml]
scrape_configs: [{job_name: seckill, static_configs: [{targets: ["` + target + `"]}]}]
`,
	} {
		fail.NowIf(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	addr := testkit.FreeAddr(t)
	p := testkit.Start(t, testkit.Command{Path: path, Args: []string{
		"--config.file=" + filepath.Join(folder, "prometheus.yml"), "--storage.tsdb.path=" + filepath.Join(folder, "data"), "--web.listen-address=" + addr,
	}})
	p.WaitHTTP(t, "http://"+addr+"/-/ready")
	return prometheus{t, "http://" + addr}
}

// impatient shortens the times of the alerts: what has to last for minutes, and the two thresholds that are an age.
func impatient(t *testing.T, rules string) string {
	t.Helper()
	rules = regexp.MustCompile(`(?m)^( +for): \w+$`).ReplaceAllString(rules, "$1: 1s")
	for long, short := range map[string]string{
		"(seckill_fulfil_blocked_since_timestamp_seconds > 0) > 30": "(seckill_fulfil_blocked_since_timestamp_seconds > 0) > 2",
		"max(seckill_fulfil_backlog_oldest_seconds) > 60":           "max(seckill_fulfil_backlog_oldest_seconds) > 2",
	} {
		if strings.Count(rules, long) != 1 {
			t.Fatalf("deploy/prometheus/alerts.yml has no %q", long)
		}
		rules = strings.Replace(rules, long, short, 1)
	}
	return rules
}

// firing returns the names of the alerts that fire.
func (p prometheus) firing() []string {
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	p.get("/api/v1/alerts", &answer)
	var names []string
	for _, alert := range answer.Data.Alerts {
		if alert.State == "firing" {
			names = append(names, alert.Labels["alertname"])
		}
	}
	return names
}

// has reports whether an expression has a result.
func (p prometheus) has(expression string) bool {
	p.t.Helper()
	var answer struct{ Data struct{ Result []any } }
	p.get("/api/v1/query?query="+url.QueryEscape(expression), &answer)
	return len(answer.Data.Result) > 0
}

func (p prometheus) get(path string, into any) {
	p.t.Helper()
	status, body := harness.Call(p.t, http.MethodGet, p.url+path, nil, "")
	if err := json.Unmarshal([]byte(body), into); err != nil || status != http.StatusOK {
		p.t.Fatalf("%s: %d %s (%v)", path, status, body, err)
	}
}
