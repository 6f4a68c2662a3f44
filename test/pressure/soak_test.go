package pressure

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/reconcile"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// soakRun is a service under a steady load of short sales: each voucher on sale is replaced by another one when its
// sale ends.
type soakRun struct {
	lasts, sale, forgetAfter, sampleEvery time.Duration
	vouchers                              int // on sale at a time
	rate                                  int // orders asked for in a second, of all vouchers
}

// sample is a measurement of all processes together.
type sample struct {
	at                           time.Duration
	answered                     int64 // so far
	rss, heap, goroutines, redis float64
	keys                         int64
}

// TestSalesLeaveNothingInRedis is the quick form of [TestSoakOfSales].
func TestSalesLeaveNothingInRedis(t *testing.T) {
	t.Parallel()
	soakRun{lasts: 5 * time.Second, sale: time.Second, forgetAfter: time.Second, sampleEvery: time.Second, vouchers: 5, rate: 200}.run(t)
}

// TestSoakOfSales takes ten minutes, or SECKILL_TEST_SOAK_FOR.
func TestSoakOfSales(t *testing.T) {
	testkit.Soak(t)
	lasts := soakFor(t)
	soakRun{lasts: lasts, sale: 20 * time.Second, forgetAfter: 5 * time.Second, sampleEvery: lasts / 10, vouchers: 50, rate: 2000}.run(t)
}

// soakFor is how long a soak takes.
func soakFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("SECKILL_TEST_SOAK_FOR")
	if text == "" {
		return 10 * time.Minute
	}
	lasts, err := time.ParseDuration(text)
	fail.NowIf(t, err, "SECKILL_TEST_SOAK_FOR")
	return lasts
}

func (k soakRun) run(t *testing.T) {
	server := testkit.NewRedis(t)
	s := harness.Stores{DB: testkit.MariaDB(t), Redis: []string{server.Addr()}}.With("SECKILL_FORGET_AFTER="+k.forgetAfter.String(), "SECKILL_LOG_LEVEL=warn")
	a, b := harness.Start(t, s), harness.Start(t, s)
	client := server.Client(t)
	b.WaitHTTP(t, b.URL+"/readyz")
	load := newSoakLoad(t, k, a, b)
	stop := load.start()
	begun, samples := time.Now(), []sample(nil)
	for left := k.lasts; left > 0; left = k.lasts - time.Since(begun) {
		time.Sleep(min(left, k.sampleEvery))
		samples = append(samples, k.sample(t, time.Since(begun), client, load, a, b))
	}
	stop()
	k.table(t, samples)
	if k.lasts >= time.Minute { // of less, the garbage collector's cycles are all that could be seen
		k.checkNoGrowth(t, samples)
	}
	told, _ := load.answers()
	t.Logf("%v after %d sales", told, load.sales.Load())

	testkit.Until(t, fmt.Sprintf("nothing is left in Redis of %d sales", load.sales.Load()), func() bool {
		left, err := client.Keys(t.Context(), "*adm:{*").Result()
		fail.NowIf(t, err)
		return len(left) == 0
	})
	last := k.sample(t, time.Since(begun), client, load, a, b)
	t.Logf("after the last sale: no key of a voucher, %d keys in all, %.1f MB in Redis, %.0f goroutines", last.keys, last.redis, last.goroutines)
	exit, output, report := harness.RunReconcile(t, s, "-json")
	var confirmed, known int64
	for _, v := range report.Vouchers {
		confirmed += v.Confirmed
		if v.State == reconcile.Forgotten {
			known++
		}
	}
	if exit != 0 || known != load.sales.Load() || confirmed < told["accepted"] {
		t.Errorf("reconcile ended with %d: %d of %d sales forgotten, %d of %d orders confirmed\n%.2000s", exit, known, load.sales.Load(), confirmed, told["accepted"], output)
	}
	load.checkLateRequests(b)
}

// soakLoad is the load of the buyers.
type soakLoad struct {
	t       *testing.T
	soakRun soakRun
	urls    []string
	client  *http.Client
	current []atomic.Pointer[harness.Sale] // on sale now, by place
	sales   atomic.Int64
	users   atomic.Int64

	mu   sync.Mutex
	told map[string]int64
	one  order1 // some order that was accepted
}

// order1 is an order and its user.
type order1 struct {
	id   string
	user int
}

func newSoakLoad(t *testing.T, k soakRun, processes ...harness.Process) *soakLoad {
	transport := &http.Transport{MaxIdleConnsPerHost: 256}
	t.Cleanup(transport.CloseIdleConnections)
	l := &soakLoad{t: t, soakRun: k, client: &http.Client{Transport: transport, Timeout: time.Minute}, current: make([]atomic.Pointer[harness.Sale], k.vouchers), told: map[string]int64{}}
	for _, p := range processes {
		l.urls = append(l.urls, p.URL)
	}
	return l
}

// start opens the first sales and starts the buyers, until stop is called.
func (l *soakLoad) start() (stop func()) {
	end := make(chan struct{})
	var running sync.WaitGroup
	ended := func() bool {
		select {
		case <-end:
			return true
		default:
			return false
		}
	}
	for place := range l.current {
		running.Go(func() { // the sales of a place, one after the other
			time.Sleep(l.soakRun.sale * time.Duration(place) / time.Duration(len(l.current))) // not all at once
			for !ended() {
				l.open(place)
				select {
				case <-time.After(l.soakRun.sale):
				case <-end:
				}
			}
		})
	}
	const buyers = 64
	every := buyers * time.Second / time.Duration(l.soakRun.rate)
	for n := range buyers {
		running.Go(func() {
			for next := time.Now(); !ended(); next = next.Add(every) {
				if late := time.Since(next); late > time.Second { // what was missed is not made up for
					next = time.Now()
				}
				time.Sleep(time.Until(next))
				l.buy(n)
			}
		})
	}
	return func() { close(end); running.Wait() }
}

// open puts the next voucher on sale. Every third one is split, and every fifth one has more buyers than stock.
func (l *soakLoad) open(place int) {
	n := l.sales.Add(1)
	stock, policy := 1_000_000, `{"flow":"admission"}`
	if n%3 == 0 {
		policy = `{"flow":"admission","buckets":4}`
	}
	if n%5 == 0 {
		stock = 20
	}
	now := time.Now()
	status, body := harness.Call(l.t, http.MethodPost, l.urls[int(n)%len(l.urls)]+"/api/v1/vouchers", nil, fmt.Sprintf(
		`{"title":"t","stock":%d,"begin_at":%q,"end_at":%q,"policy":%s}`,
		stock, now.Format(time.RFC3339Nano), now.Add(l.soakRun.sale).Format(time.RFC3339Nano), policy))
	var created struct{ ID string }
	if err := json.Unmarshal([]byte(body), &created); err != nil || status != http.StatusCreated {
		l.sales.Add(-1)
		l.t.Errorf("create voucher: %d %s", status, body)
		return
	}
	l.current[place].Store(&harness.Sale{T: l.t, URLs: l.urls, Voucher: created.ID, Client: l.client})
}

func (l *soakLoad) buy(n int) {
	user := int(l.users.Add(1))
	sale := l.current[user%len(l.current)].Load()
	if sale == nil {
		return
	}
	got := sale.Buy(n, user, "")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told[got.Code]++
	if got.Order != "" {
		l.one = order1{got.Order, user}
	}
}

// answers returns how many buyers were told what, and how many in all.
func (l *soakLoad) answers() (told map[string]int64, all int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.told {
		all += n
	}
	return maps.Clone(l.told), all
}

// checkLateRequests checks the answers to requests that arrive after everything was forgotten.
func (l *soakLoad) checkLateRequests(p harness.Process) {
	l.t.Helper()
	var closed *harness.Sale
	for i := range l.current {
		if closed = l.current[i].Load(); closed != nil {
			break
		}
	}
	closed.URLs = []string{p.URL}
	fail.Unequal(l.t, closed.Buy(0, 1_000_000_001, "").Code, "sale_ended", "a late buyer")
	fail.Unequal(l.t, closed.Status(0, l.one.id, l.one.user, ""), "confirmed", "order %s", l.one.id)
	if got := closed.StatusOf(0, "4711", 1); !strings.HasPrefix(got, "404") {
		l.t.Errorf("an unknown order: %s", got)
	}
	if a := closed.Audit(0); !a.Balanced || a.Pending != 0 {
		l.t.Errorf("audit of a forgotten voucher: %+v", a)
	}
}

func (k soakRun) sample(t *testing.T, at time.Duration, client *redis.Client, load *soakLoad, processes ...harness.Process) sample {
	t.Helper()
	s := sample{at: at}
	_, s.answered = load.answers()
	for _, p := range processes {
		s.rss += p.Metric(t, "process_resident_memory_bytes") / 1e6
		s.heap += p.Metric(t, "go_memstats_heap_inuse_bytes") / 1e6
		s.goroutines += p.Metric(t, "go_goroutines")
	}
	used, err := strconv.ParseFloat(client.InfoMap(t.Context(), "memory").Item("Memory", "used_memory"), 64)
	fail.NowIf(t, err)
	s.redis, s.keys = used/1e6, client.DBSize(t.Context()).Val()
	return s
}

func (k soakRun) table(t *testing.T, samples []sample) {
	var out strings.Builder
	fmt.Fprintf(&out, "two processes, %d vouchers at a time for %v each, forgotten after %v, %d orders/s wanted\n", k.vouchers, k.sale, k.forgetAfter, k.rate)
	fmt.Fprintf(&out, "%8s %10s %8s %8s %10s %10s %6s\n", "at", "orders/s", "RSS MB", "heap MB", "goroutines", "Redis MB", "keys")
	var before sample
	for _, s := range samples {
		fmt.Fprintf(&out, "%8s %10.0f %8.1f %8.1f %10.0f %10.2f %6d\n", s.at.Round(time.Second), float64(s.answered-before.answered)/(s.at-before.at).Seconds(), s.rss, s.heap, s.goroutines, s.redis, s.keys)
		before = s
	}
	t.Log("\n" + out.String())
}

// checkNoGrowth compares the third quarter with the last one. What grows with each sale grows by a third between them;
// the allowance is for what is collected or returned only now and then.
func (k soakRun) checkNoGrowth(t *testing.T, samples []sample) {
	t.Helper()
	half := samples[len(samples)/2:]
	third, last := half[:len(half)/2], half[len(half)/2:]
	for _, m := range []struct {
		what      string
		of        func(s sample) float64
		allowance float64
	}{
		{"RSS in MB", func(s sample) float64 { return s.rss }, 16},
		{"goroutines", func(s sample) float64 { return s.goroutines }, 60},
		{"Redis' memory in MB", func(s sample) float64 { return s.redis }, 2},
		{"keys", func(s sample) float64 { return float64(s.keys) }, 40},
	} {
		mean := func(some []sample) (sum float64) {
			for _, s := range some {
				sum += m.of(s) / float64(len(some))
			}
			return sum
		}
		if before, after := mean(third), mean(last); after > 1.15*before+m.allowance {
			t.Errorf("%s grew from %.1f to %.1f in the second half", m.what, before, after)
		}
	}
}
