package pressure

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// TestSoakIdleVouchers measures what vouchers cost that are on sale and that nobody buys, and what a buyer of one of
// them waits for. It has as many vouchers as SECKILL_TEST_IDLE_VOUCHERS says, 2,000 otherwise, for ten minutes or
// SECKILL_TEST_SOAK_FOR.
func TestSoakIdleVouchers(t *testing.T) {
	testkit.Soak(t)
	db := testkit.NewMariaDB(t)
	server := testkit.NewRedis(t)
	s := harness.Stores{DB: db.Database(t), Redis: []string{server.Addr()}}.With("SECKILL_LOG_LEVEL=warn", "SECKILL_USER_LOOKUPS=1000000")
	p := harness.Start(t, s)
	harness.WaitReady(t, p)
	k := idleSoak{t: t, process: p, redis: server.Client(t), pids: map[string]int{"service": p.PID()}}
	k.pids["Redis"] = number(t, k.redis.InfoMap(t.Context(), "server").Item("Server", "process_id"))
	k.pids["MariaDB"] = pidOf(t, s.DB)

	vouchers := harness.Number(t, "SECKILL_TEST_IDLE_VOUCHERS", 2000)
	sales := k.open(vouchers)
	time.Sleep(15 * time.Second) // what opening them has begun is over
	lasts := soakFor(t) / 3
	rows := []string{k.measure("nobody buys", lasts, nil)}
	rows = append(rows, k.measure("one buyer a second, each of another voucher", lasts, func(ctx context.Context) { k.buy(ctx, sales, time.Second) }))
	rows = append(rows, k.measure("64 look-ups of unknown orders at a time", lasts, k.lookUp))

	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "%d vouchers\tcommands/s\tservice\tRedis\tMariaDB\n%s", vouchers, strings.Join(rows, ""))
	_ = table.Flush() // into memory
	slices.Sort(k.written)
	t.Logf("\n%san order was in the database after %v, at most %v", &text, k.written[len(k.written)/2], k.written[len(k.written)-1])
	for _, sale := range sales[:min(10, len(sales))] {
		if a := sale.Audit(0); !a.Balanced {
			t.Errorf("voucher %s: %+v", sale.Voucher, a)
		}
	}
}

type idleSoak struct {
	t       *testing.T
	process harness.Process
	redis   *redis.Client
	pids    map[string]int
	written []time.Duration // from when each order was sent until it was in the database
}

// open puts vouchers on sale.
func (k *idleSoak) open(n int) []*harness.Sale {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	k.t.Cleanup(client.CloseIdleConnections)
	sales, now := make([]*harness.Sale, n), time.Now()
	body := fmt.Sprintf(`{"title":"t","stock":1000,"begin_at":%q,"end_at":%q,"policy":{"flow":"admission"}}`,
		now.Format(time.RFC3339Nano), now.Add(24*time.Hour).Format(time.RFC3339Nano))
	var opening sync.WaitGroup
	const atOnce = 8
	for first := range atOnce {
		opening.Go(func() {
			for i := first; i < n; i += atOnce {
				resp, err := client.Post(k.process.URL+"/api/v1/vouchers", "application/json", strings.NewReader(body))
				if err != nil {
					k.t.Error(err)
					return
				}
				var created struct{ ID string }
				err = json.NewDecoder(resp.Body).Decode(&created)
				_ = resp.Body.Close()
				if err != nil || resp.StatusCode != http.StatusCreated {
					k.t.Errorf("create voucher: %s, %v", resp.Status, err)
					return
				}
				sales[i] = &harness.Sale{T: k.t, URLs: []string{k.process.URL}, Voucher: created.ID, Client: client}
			}
		})
	}
	opening.Wait()
	if k.t.Failed() {
		k.t.FailNow()
	}
	return sales
}

// buy buys one voucher after the other until ctx ends. Each order must be in the database within a second or so: its
// voucher was idle before.
func (k *idleSoak) buy(ctx context.Context, sales []*harness.Sale, every time.Duration) {
	for i := 0; sleepFor(ctx, every); i++ {
		sale, user := sales[i%len(sales)], 1000+i
		begun := time.Now()
		told := sale.BuyUntilAnswered(0, user, "")
		if told.Code != "accepted" {
			k.t.Errorf("voucher %s: %+v", sale.Voucher, told)
			return
		}
		if status := sale.Status(0, told.Order, user, "?wait=2s"); status != "confirmed" {
			k.t.Errorf("order %s is %s %v after it was placed", told.Order, status, time.Since(begun))
		}
		k.written = append(k.written, time.Since(begun))
	}
}

// lookUp looks for orders that do not exist until ctx ends.
func (k *idleSoak) lookUp(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	defer client.CloseIdleConnections()
	var asking sync.WaitGroup
	for n := range 64 {
		asking.Go(func() {
			for id := 1 + n; ctx.Err() == nil; id += 64 {
				req, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, k.process.URL+"/api/v1/orders/"+strconv.Itoa(id), nil)
				if err != nil {
					k.t.Error(err)
					return
				}
				req.Header.Set("X-User-ID", strconv.Itoa(1_000_000+n))
				resp, err := client.Do(req)
				if err != nil {
					k.t.Error(err)
					return
				}
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusTooManyRequests {
					k.t.Errorf("an unknown order: %s", resp.Status)
					return
				}
			}
		})
	}
	asking.Wait()
}

// measure returns a row of the table: what a load, which may be nil, costs while it lasts.
func (k *idleSoak) measure(what string, lasts time.Duration, load func(ctx context.Context)) string {
	ctx, cancel := context.WithTimeout(k.t.Context(), lasts)
	defer cancel()
	before, commands, begun := k.cpu(), k.commands(), time.Now()
	if load != nil {
		load(ctx)
	}
	<-ctx.Done()
	took, row := time.Since(begun).Seconds(), what
	row += fmt.Sprintf("\t%.0f", float64(k.commands()-commands)/took)
	for _, name := range []string{"service", "Redis", "MariaDB"} {
		row += fmt.Sprintf("\t%.1f %%", 100*(k.cpu()[name]-before[name])/took)
	}
	return row + "\n"
}

func (k *idleSoak) commands() int {
	return number(k.t, k.redis.InfoMap(k.t.Context(), "stats").Item("Stats", "total_commands_processed"))
}

// cpu returns the processor seconds that each process has used.
func (k *idleSoak) cpu() map[string]float64 {
	k.t.Helper()
	seconds := map[string]float64{}
	for name, pid := range k.pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			k.t.Skipf("no processor time here: %v", err)
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		const ticks = 100 // a second, on every Linux that Go runs on
		seconds[name] = float64(number(k.t, fields[11])+number(k.t, fields[12])) / ticks
	}
	return seconds
}

func pidOf(t *testing.T, where testkit.Database) (pid int) {
	t.Helper()
	db, err := sql.Open("mysql", where.DSN)
	fail.NowIf(t, err)
	defer db.Close()
	var file string
	fail.NowIf(t, db.QueryRowContext(t.Context(), "SELECT @@pid_file").Scan(&file))
	text, err := os.ReadFile(file)
	fail.NowIf(t, err)
	return number(t, strings.TrimSpace(string(text)))
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	fail.NowIf(t, err)
	return n
}

func sleepFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
