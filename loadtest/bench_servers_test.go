// Package loadtest measures the service from outside: over HTTP, on real servers, as ratios within one run. See
// README.md.
package loadtest

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	_ "github.com/go-sql-driver/mysql"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

const (
	connections = 64
	secret      = "for measuring on this machine only"
)

var quick = flag.Bool("quick", false, "a first impression of BenchmarkFastPath: fewer rows, and fewer and shorter rounds")

// Both sides of a ratio are measured in turn, this often and this long each.
func rounds() int {
	if *quick {
		return 3
	}
	return 5
}

func window() time.Duration {
	if *quick {
		return time.Second
	}
	return 2 * time.Second
}

func TestMain(m *testing.M) { testkit.Main(m) }

// BenchmarkLockedFlow sells to distinct users over HTTP, under the default policy, and compares with the maximum of the
// database: the one statement that every order needs, on the one row that every order needs.
func BenchmarkLockedFlow(b *testing.B) {
	needWrk(b)
	database := testkit.NewMariaDB(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M").Database(b)
	api := startAPI(b, database.DSN, testkit.NewRedis(b).Addr())
	voucher := api.sell(b, time.Now(), map[string]any{"stock": 10_000_000})
	pool := open(b, database.DSN)
	for _, statement := range []string{
		"CREATE TABLE ceiling (id BIGINT PRIMARY KEY, stock BIGINT UNSIGNED NOT NULL)",
		"INSERT INTO ceiling VALUES (1, 1000000000)",
	} {
		fail.NowIf(b, fail.Of(pool.Exec(statement)))
	}
	firstUser := 1
	compare(b, "orders/s", "updates/s", func() float64 {
		before := ordersOf(b, pool, voucher)
		start := time.Now()
		firstUser += wrk(b, api.url+"/api/v1/vouchers/"+voucher+"/orders", firstUser).requests
		return float64(ordersOf(b, pool, voucher)-before) / time.Since(start).Seconds()
	}, func() float64 { return updates(b, pool) })
}

// BenchmarkRefusals compares the rate of sold_out answers with a gin handler that answers the same number of bytes and
// does nothing else.
func BenchmarkRefusals(b *testing.B) {
	needWrk(b)
	api := startAPI(b, testkit.NewMariaDB(b).Database(b).DSN, testkit.NewRedis(b).Addr())
	over := api.sell(b, time.Now().Add(-2*time.Hour), map[string]any{"stock": 1})
	soldOut := api.sell(b, time.Now(), map[string]any{"stock": 1})
	wrk(b, api.url+"/api/v1/vouchers/"+soldOut+"/orders", 1)
	for _, refusal := range []struct{ name, voucher, code string }{
		{"sold-out", soldOut, "sold_out"}, {"sale-ended", over, "sale_ended"},
	} {
		b.Run(refusal.name, func(b *testing.B) {
			url := api.url + "/api/v1/vouchers/" + refusal.voucher + "/orders"
			bare := serveBare(b, http.StatusConflict, api.answer(b, url, 4711, http.StatusConflict, refusal.code))
			compare(b, "refusals/s", "bare/s",
				func() float64 { return wrk(b, url, 1).perSecond },
				func() float64 { return wrk(b, bare, 1).perSecond })
		})
	}
}

// compare measures both in turn and reports the medians and their ratio.
func compare(b *testing.B, mine, theirs string, measureMine, measureTheirs func() float64) {
	b.Helper()
	for b.Loop() {
		var r ratios
		for range rounds() {
			r.add(measureMine(), measureTheirs())
		}
		b.ReportMetric(median(r.mine), mine)
		b.ReportMetric(median(r.theirs), theirs)
		b.ReportMetric(median(r.each), "ratio")
		b.ReportMetric(slices.Min(r.each), "ratio-min")
		b.ReportMetric(slices.Max(r.each), "ratio-max")
	}
	b.ReportMetric(0, "ns/op") // a round has a fixed length
}

// ratios are the results of two subjects that were measured in turn.
type ratios struct{ mine, theirs, each []float64 }

func (r *ratios) add(mine, theirs float64) {
	r.mine, r.theirs, r.each = append(r.mine, mine), append(r.theirs, theirs), append(r.each, mine/theirs)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// updates is how many conditional decrements of one row the database commits per second, over as many connections as
// the load has.
func updates(b *testing.B, pool *sql.DB) float64 {
	ctx, cancel := context.WithTimeout(b.Context(), window())
	defer cancel()
	var done atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range connections {
		wg.Go(func() {
			conn, err := pool.Conn(b.Context())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			for ctx.Err() == nil {
				if _, err := conn.ExecContext(b.Context(), "UPDATE ceiling SET stock = stock - 1 WHERE id = 1 AND stock > 0"); err != nil {
					b.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

func open(b *testing.B, dsn string) *sql.DB {
	b.Helper()
	pool, err := sql.Open("mysql", dsn)
	fail.NowIf(b, err)
	b.Cleanup(func() { _ = pool.Close() })
	pool.SetMaxOpenConns(connections)
	pool.SetMaxIdleConns(connections)
	return pool
}

func ordersOf(b *testing.B, pool *sql.DB, voucher string) (n int64) {
	b.Helper()
	fail.NowIf(b, pool.QueryRow("SELECT COUNT(*) FROM orders WHERE voucher_id = ?", voucher).Scan(&n))
	return n
}

// service is a running API process. Metrics are at debug.
type service struct{ url, debug string }

func startAPI(b *testing.B, dsn, redis string, env ...string) service {
	b.Helper()
	binary := filepath.Join(b.TempDir(), "api")
	if out, err := exec.Command("go", "build", "-o", binary, "seckill/cmd/api").CombinedOutput(); err != nil {
		b.Fatalf("go build: %v\n%s", err, out)
	}
	process := testkit.Start(b, testkit.Command{Path: binary, Env: append([]string{
		"SECKILL_ADDR=127.0.0.1:0", "SECKILL_DEBUG_ADDR=" + os.Getenv("SECKILL_DEBUG_ADDR"),
		"SECKILL_MYSQL_DSN=" + dsn, "SECKILL_REDIS_ADDRS=" + redis, "SECKILL_LAB=1", "SECKILL_JWT_SECRET=" + secret, "SECKILL_SHUTDOWN_DELAY=0s",
	}, env...)})
	url := process.WaitLine(b, `serving on (http://\S+?)[,\s]`)[1]
	if debug := os.Getenv("SECKILL_DEBUG_ADDR"); debug != "" {
		return service{url, "http://" + debug}
	}
	return service{url, url}
}

// sell creates a voucher with the given fields, which is on sale for an hour, and returns its id.
func (s service) sell(b *testing.B, begin time.Time, voucher map[string]any) string {
	b.Helper()
	voucher["title"] = "bench"
	voucher["begin_at"], voucher["end_at"] = begin.Format(time.RFC3339Nano), begin.Add(time.Hour).Format(time.RFC3339Nano)
	body, _ := json.Marshal(voucher)
	resp, err := http.Post(s.url+"/api/v1/vouchers", "application/json", bytes.NewReader(body))
	fail.NowIf(b, err)
	defer resp.Body.Close()
	var created struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&created); err != nil || resp.StatusCode != http.StatusCreated {
		b.Fatalf("create voucher: %s, %v", resp.Status, err)
	}
	return created.ID
}

// answer checks the status of an order's answer and a word in it, and returns the body.
func (s service) answer(b *testing.B, url string, user, status int, word string) string {
	b.Helper()
	req, _ := http.NewRequestWithContext(b.Context(), http.MethodPost, url, nil)
	req.Header.Set("X-User-ID", strconv.Itoa(user))
	resp, err := http.DefaultClient.Do(req)
	fail.NowIf(b, err)
	defer resp.Body.Close()
	var body bytes.Buffer
	_, _ = body.ReadFrom(resp.Body)
	if resp.StatusCode != status || !bytes.Contains(body.Bytes(), []byte(word)) {
		b.Fatalf("want %d %s, got %s %s", status, word, resp.Status, body.String())
	}
	return body.String()
}

// serveBare serves a gin handler that only answers.
func serveBare(b *testing.B, status int, body string) (url string) {
	b.Helper()
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/api/v1/vouchers/:id/orders", func(c *gin.Context) {
		c.Data(status, "application/json; charset=utf-8", []byte(body))
	})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fail.NowIf(b, err)
	server := &http.Server{Handler: engine}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { _ = server.Close() })
	return fmt.Sprintf("http://%s/api/v1/vouchers/1/orders", listener.Addr())
}

type load struct {
	requests  int
	perSecond float64
	cpu       float64 // that wrk took, in seconds
}

var wrkTotals = regexp.MustCompile(`(\d+) requests in [\d.]+ s, (\d+) requests/s`)

// wrk sends orders of distinct users for a window.
func wrk(b *testing.B, url string, firstUser int, env ...string) load {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "wrk", "-t1", "-c"+strconv.Itoa(connections), "-d"+window().String(), "-s", "wrk-orders.lua", url)
	cmd.Env = append(append(os.Environ(), "COUNT=none", "FIRST_USER="+strconv.Itoa(firstUser)), env...)
	out, err := cmd.CombinedOutput()
	found := wrkTotals.FindSubmatch(out)
	if err != nil || found == nil {
		b.Fatalf("wrk: %v\n%s", err, out)
	}
	requests, _ := strconv.Atoi(string(found[1]))
	perSecond, _ := strconv.ParseFloat(string(found[2]), 64)
	return load{requests, perSecond, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
}

func needWrk(b *testing.B) {
	b.Helper()
	if _, err := exec.LookPath("wrk"); err != nil {
		b.Skip("wrk not found on PATH: apt-get install wrk, or brew install wrk")
	}
}
