package loadtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"seckill/internal/database"
	"seckill/internal/order"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// stockEngine is a way to sell that is measured. The first one is what the others are compared with.
type stockEngine struct {
	name   string
	policy map[string]any // nil: the statement on the hot row and nothing else
	stock  int64
	direct bool // the store's transaction, without HTTP and lock
}

func stockEngines() []stockEngine {
	none := func(stock voucher.Stock) map[string]any {
		return map[string]any{"lock": "none", "stock": stock}
	}
	return []stockEngine{
		{"the hot row alone", nil, plenty, true},
		{"`conditional`, its transaction alone", none(voucher.StockConditional), plenty, true},
		{"`conditional`, lock `reentrant`", map[string]any{}, plenty, false},
		{"`conditional`", none(voucher.StockConditional), plenty, false},
		{"`rows`", none(voucher.StockRows), plenty, false},
		{"`units`", none(voucher.StockUnits), voucher.MaxUnits, false},
		{"`grouped`", none(voucher.StockGrouped), plenty, false},
		{"`admission`, persisted", map[string]any{"flow": "admission"}, plenty, false},
	}
}

// BenchmarkStock compares the ways to take from the stock, at several numbers of buyers at once and with two processes,
// and prints one table. make bench-stock runs it.
func BenchmarkStock(b *testing.B) {
	s := newStockShop(b)
	var lines []string
	for b.Loop() {
		for _, buyers := range []int{1, 8, 64, 512} {
			lines = append(lines, s.compareEngines(b, s.apis[:1], buyers)...)
		}
		lines = append(lines, s.compareEngines(b, s.apis, 512)...)
	}
	b.ReportMetric(0, "ns/op") // a round has a fixed length
	fmt.Fprintf(os.Stdout, "\n%s\n%s\n%s\n\n", stockHead, strings.Repeat("|---", strings.Count(stockHead, "|")-1)+"|", strings.Join(lines, "\n"))
}

const stockHead = "| buyers at once | processes | stock | orders/s | of the hot row | p50, ms | p99, ms | connection held, ms | CPU of each, µs: service | MariaDB | Redis | buyers | others on the machine |"

// stockShop is two processes with their servers.
type stockShop struct {
	benchService
	apis   []service
	direct *database.DB
}

func newStockShop(b *testing.B) *stockShop {
	b.Helper()
	where := testkit.NewMariaDB(b, "--innodb-flush-log-at-trx-commit=1", "--innodb-buffer-pool-size=256M").Database(b)
	server := testkit.NewRedis(b)
	s := &stockShop{benchService: benchService{redis: server.Client(b), user: 1, own: prometheus.NewRegistry()}}
	s.own.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for range 2 {
		s.apis = append(s.apis, startAPI(b, where.DSN, server.Addr(), "SECKILL_LOG_LEVEL=warn"))
	}
	s.api = s.apis[0]
	s.pool = open(b, where.DSN)
	var err error
	s.direct, err = database.Open(b.Context(), database.Config{MySQL: where.DSN})
	fail.NowIf(b, err)
	b.Cleanup(func() { _ = s.direct.Close() })
	for _, statement := range []string{
		"CREATE TABLE ceiling (id BIGINT PRIMARY KEY, stock BIGINT UNSIGNED NOT NULL)",
		"INSERT INTO ceiling VALUES (1, 1000000000)",
	} {
		fail.NowIf(b, fail.Of(s.pool.Exec(statement)))
	}
	return s
}

// stockResult is what the rounds of one engine have in common.
type stockResult struct {
	rates   []float64
	latency *hdrhistogram.Histogram // of the orders, in µs
	orders  float64
	spent   cpu
	held    float64 // seconds, of all connections
	others  []float64
}

// compareEngines measures every engine in turn, some rounds, and returns a line of the table for each.
func (s *stockShop) compareEngines(b *testing.B, apis []service, buyers int) []string {
	b.Helper()
	engines := stockEngines()
	results := make([]stockResult, len(engines))
	for range (rounds() + 1) / 2 {
		for i, e := range engines {
			s.measure(b, &results[i], e, apis, buyers)
		}
	}
	lines := make([]string, len(engines))
	for i, r := range results {
		spent := r.spent.each(r.orders)
		lines[i] = fmt.Sprintf("| %d | %d | %s | %.0f (%.0f to %.0f) | %.2f | %.2f | %.2f | %s | %s | %.0f | %s | %.0f | %.0f %% |",
			buyers, len(apis), engines[i].name, median(r.rates), slices.Min(r.rates), slices.Max(r.rates), median(r.rates)/median(results[0].rates),
			quantile(r.latency, 50), quantile(r.latency, 99), orNone("%.2f", 1000*r.held/r.orders), orNone("%.0f", spent.service), spent.mariadb,
			orNone("%.1f", spent.redis), spent.bare, 100*slices.Max(r.others))
	}
	return lines
}

// orNone formats a number; one that was not measured is a dash.
func orNone(format string, n float64) string {
	if text := fmt.Sprintf(format, n); strings.Trim(text, "0.") != "" {
		return text
	}
	return "–"
}

// measure sells a voucher for a window, or until it is sold out, and adds what it sees.
func (s *stockShop) measure(b *testing.B, r *stockResult, e stockEngine, apis []service, buyers int) {
	b.Helper()
	if r.latency == nil {
		r.latency = hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	}
	buyer, sold := s.updater, func() int64 { return 0 }
	if e.policy != nil {
		id := apis[0].sell(b, time.Now(), map[string]any{"stock": e.stock, "policy": e.policy})
		buyer = func(n int) (func(context.Context, int) (bool, error), io.Closer, error) {
			if e.direct {
				return s.transactor(id)
			}
			return orderer(apis[n%len(apis)].url + "/api/v1/vouchers/" + id + "/orders")
		}
		sold = func() (n int64) {
			fail.NowIf(b, s.pool.QueryRow("SELECT COUNT(*) FROM orders WHERE voucher_id = ?", id).Scan(&n))
			return n
		}
	}
	begun, machine := s.spent(b), s.machine(b)
	start := time.Now()
	held := s.sampleConnections(b, apis)
	latency := s.buy(b, buyer, buyers)
	for e.policy["flow"] != nil && sold() < latency.TotalCount() { // accepted, and not in the database yet
		pause(b, 10*time.Millisecond)
	}
	took := time.Since(start).Seconds()
	r.held += held() * took
	r.spent = r.spent.plus(s.spent(b).minus(begun))
	r.others = append(r.others, s.machine(b).othersSince(machine))
	r.rates = append(r.rates, float64(latency.TotalCount())/took)
	r.orders += float64(latency.TotalCount())
	r.latency.Merge(latency)
	if e.policy != nil && sold() != latency.TotalCount() {
		b.Fatalf("%s: %d orders were told, the database has %d", e.name, latency.TotalCount(), sold())
	}
}

// spent is the processor time of everything so far.
func (s *stockShop) spent(b *testing.B) cpu {
	b.Helper()
	c := s.busy(b)
	c.service += find(b, metricsOf(b, s.apis[1]), `(?m)^process_cpu_seconds_total (\S+)`)
	return c
}

// machine counts the second process as ours too.
func (s *stockShop) machine(b *testing.B) machineTime {
	b.Helper()
	m := s.benchService.machine(b)
	m.ours += find(b, metricsOf(b, s.apis[1]), `(?m)^process_cpu_seconds_total (\S+)`)
	return m
}

func metricsOf(b *testing.B, api service) string {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, api.debug+"/metrics", http.NoBody)
	fail.NowIf(b, err)
	req.Header.Set("Accept-Encoding", "identity") // the service would take time to compress it
	resp, err := http.DefaultClient.Do(req)
	fail.NowIf(b, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fail.NowIf(b, err)
	return string(text)
}

// sampleConnections returns how many connections of the writers' pools were in use, on average until it is asked.
func (s *stockShop) sampleConnections(b *testing.B, apis []service) (mean func() float64) {
	b.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	var sum, n float64
	go func() {
		defer close(done)
		for {
			for _, api := range apis {
				sum += find(b, metricsOf(b, api), `(?m)^go_sql_in_use_connections{db_name="writers"} (\S+)`)
			}
			n++
			select {
			case <-time.After(200 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		<-done
		return sum / n
	}
}

// buy has buyers buy for a window, or until all is sold, and returns the latencies of their orders.
func (s *stockShop) buy(b *testing.B, buyer func(n int) (func(context.Context, int) (bool, error), io.Closer, error), buyers int) *hdrhistogram.Histogram {
	b.Helper()
	orders := make([]func(context.Context, int) (bool, error), buyers)
	for i := range orders {
		place, closer, err := buyer(i)
		fail.NowIf(b, err)
		defer closer.Close()
		orders[i] = place
	}
	latency := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
	var user atomic.Int64
	user.Store(int64(s.user))
	var mu sync.Mutex
	var all sync.WaitGroup
	end := time.Now().Add(window())
	for _, place := range orders {
		all.Go(func() {
			own := hdrhistogram.New(1, time.Minute.Microseconds(), 3)
			for time.Now().Before(end) {
				began := time.Now()
				bought, err := place(b.Context(), int(user.Add(1)))
				if err != nil {
					b.Error(err)
					return
				}
				if !bought {
					break
				}
				_ = own.RecordValue(max(1, time.Since(began).Microseconds()))
			}
			mu.Lock()
			defer mu.Unlock()
			latency.Merge(own)
		})
	}
	all.Wait()
	s.user = int(user.Load())
	if b.Failed() || latency.TotalCount() == 0 {
		b.Fatalf("%d orders", latency.TotalCount())
	}
	return latency
}

// updater is a buyer that carries out the one statement that every order needs, on the one row that every order needs.
func (s *stockShop) updater(int) (func(context.Context, int) (bool, error), io.Closer, error) {
	return func(ctx context.Context, _ int) (bool, error) {
		_, err := s.pool.ExecContext(ctx, "UPDATE ceiling SET stock = stock - 1 WHERE id = 1 AND stock > 0")
		return err == nil, err
	}, io.NopCloser(nil), nil
}

// transactor is a buyer that carries out the transaction of an order.
func (s *stockShop) transactor(id string) (func(context.Context, int) (bool, error), io.Closer, error) {
	voucherID, err := strconv.ParseInt(id, 10, 64)
	return func(ctx context.Context, user int) (bool, error) {
		o := order.Order{ID: int64(user), VoucherID: voucherID, UserID: int64(user), Status: order.Confirmed, CreatedAt: time.Now()}
		err := s.direct.Orders().Transact(ctx, func(ctx context.Context, tx order.Tx) error {
			return errors.Join(tx.Decrement(ctx, voucherID), tx.Insert(ctx, o, true))
		})
		return err == nil, err
	}, io.NopCloser(nil), err
}

// orderer is a buyer with a connection of its own. It does its own reading and writing, as a pacer does.
func orderer(to string) (func(context.Context, int) (bool, error), io.Closer, error) {
	where, err := url.Parse(to)
	if err != nil {
		return nil, nil, err
	}
	conn, err := net.Dial("tcp", where.Host)
	if err != nil {
		return nil, nil, err
	}
	answers := bufio.NewReader(conn)
	return func(_ context.Context, user int) (bool, error) {
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: %s\r\nX-User-ID: %d\r\n\r\n", where.Path, where.Host, user); err != nil {
			return false, err
		}
		status, err := readAnswer(answers)
		switch {
		case err != nil:
			return false, err
		case strings.Contains(status, " 201 "), strings.Contains(status, " 202 "):
			return true, nil
		case strings.Contains(status, " 409 "): // sold out: nobody orders twice, and no lock is waited for
			return false, nil
		}
		return false, fmt.Errorf("an order was answered %q", status)
	}, conn, nil
}
