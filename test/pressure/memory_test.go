package pressure

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// In a control group the service limits Go's memory to nine tenths of the group's, unless GOMEMLIMIT says another.
func TestMemoryLimitIsOfTheControlGroup(t *testing.T) {
	const limit = 400 << 20
	group := newMemoryGroup(t, limit)
	for name, c := range map[string]struct {
		env  string
		want int64
	}{
		"the group's":     {"", limit / 10 * 9},
		"the environment": {"300MiB", 300 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := testkit.Start(t, testkit.Command{
				Path: "/bin/sh", Args: []string{"-c", `echo $$ > "$0" && exec "$1"`, filepath.Join(group, "cgroup.procs"), harness.SelfPath(t)},
				Env: []string{harness.AsService, "SECKILL_ADDR=127.0.0.1:0", "GOMEMLIMIT=" + c.env},
			})
			url := p.WaitLine(t, `(http://127\.0\.0\.1:\d+)`)[1]
			_, metrics := harness.Call(t, http.MethodGet, url+"/metrics", nil, "")
			const metric = "\ngo_gc_gomemlimit_bytes "
			_, value, _ := strings.Cut(metrics, metric)
			value, _, _ = strings.Cut(value, "\n")
			if got, err := strconv.ParseFloat(value, 64); err != nil || int64(got) != c.want {
				t.Errorf("go_gc_gomemlimit_bytes %s (%v), want %d", value, err, c.want)
			}
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// newMemoryGroup makes a control group, of version 1 or 2, with a limit of its memory, and returns its folder. It is
// removed after the processes in it have ended.
func newMemoryGroup(t *testing.T, limit int64) string {
	t.Helper()
	dir, file, err := memoryGroups()
	dir = filepath.Join(dir, fmt.Sprintf("seckill-test-%d", os.Getpid()))
	if err == nil {
		err = os.Mkdir(dir, 0o755)
	}
	if err != nil { // nothing that can be installed helps, so REQUIRE_INFRA does not ask for it
		t.Skipf("a control group can be made on Linux, as root, where the memory controller is delegated: %v", err)
	}
	t.Cleanup(func() {
		testkit.Until(t, "the control group is empty", func() bool { return os.Remove(dir) == nil })
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		t.Fatal(err)
	}
	return dir
}

// memoryGroups returns the folder in which this process may make control groups, and their file of the limit.
func memoryGroups() (dir, file string, err error) {
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(self)) {
		// hierarchy:controllers:path
		part := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(part) == 3 && part[1] == "memory" {
			dir, file = filepath.Join("/sys/fs/cgroup/memory", part[2]), "memory.limit_in_bytes"
			if _, err := os.Stat(dir); err != nil { // in a container the path is the host's
				dir = "/sys/fs/cgroup/memory"
			}
			return dir, file, nil
		}
	}
	dir, file = "/sys/fs/cgroup", "memory.max"
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err == nil && !strings.Contains(string(controllers), "memory") {
		err = fmt.Errorf("%s/cgroup.subtree_control is %q, without memory", dir, controllers)
	}
	return dir, file, err
}

// However many read vouchers, the database is asked for each at most once in 100 ms, and for all pages but the first about
// 50 times a second. The median of orders beside them is logged.
func TestReadsAreServedFromMemory(t *testing.T) {
	mariadb := testkit.NewMariaDB(t)
	db := mariadb.Database(t)
	p := harness.Start(t, harness.Stores{DB: db, Redis: []string{testkit.Redis(t).Addr()}}.With("SECKILL_MAX_REQUESTS_PER_ADDRESS=0"))
	sale := harness.OpenSale(t, 1_000_000, `{}`, p)
	selects := selectsOf(t, db)
	const window = 2 * time.Second
	alone := median(ordersFor(sale, window, 1))

	// The service has queries of its own, without any reader.
	before, begun := selects(), time.Now()
	time.Sleep(window)
	idle := float64(selects()-before) / time.Since(begun).Seconds()

	var reads atomic.Int64
	before, begun = selects(), time.Now()
	const pages = 63 // as many as are cached beside the first
	stop := harness.Again(16, func() {
		page := strconv.FormatInt(1+reads.Load()%pages, 10)
		for _, path := range []string{"/" + sale.Voucher, "?limit=100", "?limit=100&after=" + page} {
			if status := sale.See(path); status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
			reads.Add(1)
		}
	})
	time.Sleep(window)
	asked, took := float64(selects()-before), time.Since(begun)
	beside := median(ordersFor(sale, window, 1_000_000))
	stop()

	loads := asked - idle*took.Seconds()
	t.Logf("%d reads took %.0f queries in %v, of %.1f/s without readers; the median order took %v alone, %v beside the reads",
		reads.Load(), asked, took.Round(time.Millisecond), idle, alone, beside)
	// The voucher and the list, each at most once in 100 ms; the other pages, each once a second and 50 at first; and some of
	// the service's own.
	if most := 2*(took.Seconds()*10+1) + pages*(took.Seconds()+1) + 50 + 10; loads > most {
		t.Errorf("%.0f queries for readers in %v, want at most %.0f", loads, took, most)
	}
}

// A client asks for vouchers that do not exist, as often as it can. Meanwhile a voucher that another process has just
// created is shown and sold to others at their first request.
func TestUnknownVouchersTakeNothingFromOthers(t *testing.T) {
	mariadb := testkit.NewMariaDB(t)
	db := mariadb.Database(t)
	s := harness.Stores{DB: db, Redis: []string{testkit.Redis(t).Addr()}}
	a, b := harness.Start(t, s), harness.Start(t, s)
	flooded := harness.OpenSale(t, 1, `{}`, a)
	selects := selectsOf(t, db)

	var asked atomic.Int64
	told := [600]atomic.Int64{}
	ask := func(method, path string, user int) {
		status, _ := harness.Call(t, method, a.URL+"/api/v1/vouchers/"+path, http.Header{"X-User-Id": {strconv.Itoa(user)}}, "")
		told[status].Add(1)
		asked.Add(1)
	}
	unknown := func() string { return strconv.FormatInt(1<<61+rand.Int64N(1<<60), 10) }
	before, begun := selects(), time.Now()
	stopReads := harness.Again(16, func() { ask(http.MethodGet, unknown(), 1) })
	stopOrders := harness.Again(16, func() { ask(http.MethodPost, unknown()+"/orders", 1) })
	testkit.Until(t, "the flood is on", func() bool { return asked.Load() > 2000 })
	var slowest time.Duration
	for user := range 20 {
		fresh := harness.OpenSale(t, 1, `{}`, b)
		fresh.URLs = []string{a.URL}
		sent := time.Now()
		if user%2 == 0 {
			if status := fresh.Look(); status != http.StatusOK {
				t.Errorf("a new voucher is shown as %d", status)
			}
		} else if got := fresh.Buy(0, 100+user, ""); got.Code != "created" {
			t.Errorf("an order of a new voucher: %+v", got)
		}
		slowest = max(slowest, time.Since(sent))
	}
	if status := flooded.Look(); status != http.StatusOK {
		t.Errorf("a known voucher is shown as %d", status)
	}
	stopReads()
	stopOrders()
	took := time.Since(begun)
	rate := float64(selects()-before) / took.Seconds()
	t.Logf("%.0f unknown ids/s: %d told 404, %d told 503; %.0f queries/s; a new voucher took %v at most",
		float64(asked.Load())/took.Seconds(), told[http.StatusNotFound].Load(), told[http.StatusServiceUnavailable].Load(), rate, slowest)
	if rate > 300 { // 200, and those of the sales
		t.Errorf("%.0f queries/s", rate)
	}
}

// ordersFor places orders one after the other for a while, and returns how long each took.
func ordersFor(s *harness.Sale, window time.Duration, firstUser int) (took []time.Duration) {
	for begun := time.Now(); time.Since(begun) < window; firstUser++ {
		sent := time.Now()
		if got := s.Buy(0, firstUser, ""); got.Code != "created" {
			s.T.Errorf("user %d: %+v", firstUser, got)
		}
		took = append(took, time.Since(sent))
	}
	return took
}

func median(took []time.Duration) time.Duration {
	slices.Sort(took)
	return took[len(took)/2].Round(10 * time.Microsecond)
}

// selectsOf returns how many SELECT the server of a database has answered.
func selectsOf(t *testing.T, db testkit.Database) func() int64 {
	t.Helper()
	pool, err := sql.Open("mysql", db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	return func() (n int64) {
		var name string
		if err := pool.QueryRowContext(t.Context(), "SHOW GLOBAL STATUS LIKE 'Com_select'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
}
