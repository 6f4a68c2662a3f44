package pressure

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/test/harness"
)

// An order that one process has accepted is visible at once through another one, by itself and in the list,
// whatever stage it is in.
func TestAcceptedOrdersAreShownEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	const users = 400
	s := harness.NewStores(t).With("SECKILL_USER_LOOKUPS=1000")
	a, b := harness.Start(t, s), harness.Start(t, s)
	for _, policy := range []string{harness.AdmissionPolicy, `{"flow":"admission","buckets":4}`} {
		sale := harness.OpenSale(t, users, policy, a, b)
		var buying sync.WaitGroup
		var statuses sync.Map
		for n := range harness.Connections {
			buying.Go(func() {
				for user := n + 1; user <= users; user += harness.Connections {
					got := sale.BuyUntilAnswered(0, user, "key-"+strconv.Itoa(user))
					if got.Code != "accepted" {
						t.Errorf("user %d: %+v", user, got)
						continue
					}
					status := sale.Status(1, got.Order, user, "")
					if status != "pending" && status != "confirmed" {
						t.Errorf("%s: user %d was told of order %s, which is then %q", policy, user, got.Order, status)
					}
					statuses.Store(status, true)
					if code, body := harness.Ask(t, b.URL+"/api/v1/orders", user); code != http.StatusOK || !strings.Contains(body, got.Order) {
						t.Errorf("%s: order %s is not listed: %d %s", policy, got.Order, code, body)
					}
				}
			})
		}
		buying.Wait()
		statuses.Range(func(status, _ any) bool { t.Logf("%s: some were %s", policy, status); return true })
	}
}

// Requests for unknown orders, and for lists of orders, cost Redis as little with 610 vouchers on sale as with a few, also
// when each of them has a pending order. However fast one user asks, the others are served as before.
func TestLookUpsAmongManyVouchers(t *testing.T) {
	t.Parallel()
	const requests, vouchers = 200, 610
	s := harness.NewStores(t).With("SECKILL_USER_LOOKUPS=10000")
	p := harness.Start(t, s)
	sale := harness.OpenSale(t, 100_000, harness.AdmissionPolicy, p)
	client := harness.RedisAt(t, s.Redis[0])
	copyVoucher(t, s, sale.Voucher, vouchers-1)
	for _, pending := range []string{"none", "one in each"} {
		if pending != "none" {
			holdOrders(t, s)
		}
		for _, path := range []string{"/api/v1/orders/77", "/api/v1/orders"} {
			before := queriesOf(t, client)
			var asking sync.WaitGroup
			for user := range requests {
				asking.Go(func() {
					want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[path == "/api/v1/orders"]
					if status, body := harness.Ask(t, p.URL+path, user+1); status != want {
						t.Errorf("%s: %d %s", path, status, body)
					}
				})
			}
			asking.Wait()
			// A scan asks 2 questions about each voucher, and 2 more if it has pending orders. To ask so for each
			// request was 1,220.
			each := float64(queriesOf(t, client)-before) / requests
			t.Logf("GET %s: %.1f commands each, among %d vouchers with pending orders: %s", path, each, vouchers, pending)
			if each > 200 {
				t.Errorf("GET %s: %.1f commands each, want at most 200", path, each)
			}
		}
	}
	quiet, slow, fast := whileLooking(sale, client, 0, 1000), whileLooking(sale, client, 83, 10_000), whileLooking(sale, client, 830, 20_000)
	for _, f := range []lookUpLoad{quiet, slow, fast} {
		t.Logf("%d look-ups/s: %.0f commands/s; p50 of the others' orders %v", f.rate, f.commands, f.p50)
	}
	// A tenth of what a request would cost if it asked all vouchers itself.
	if limit := float64(fast.rate * 2 * vouchers / 10); fast.commands > limit {
		t.Errorf("%d look-ups/s: %.0f commands/s, want at most %.0f", fast.rate, fast.commands, limit)
	}
}

// lookUpLoad is what look-ups at a rate cost.
type lookUpLoad struct {
	rate     int
	commands float64 // a second
	p50      time.Duration
}

// whileLooking has one user look for an unknown order at a rate, for a few seconds, while others place orders.
func whileLooking(s *harness.Sale, client *redis.Client, rate, firstUser int) lookUpLoad {
	const lasts = 3 * time.Second
	ctx, cancel := context.WithTimeout(s.T.Context(), lasts)
	defer cancel()
	before, begun := queriesOf(s.T, client), time.Now()
	var looking sync.WaitGroup
	looking.Go(func() {
		for n := 0; rate > 0 && ctx.Err() == nil; n++ {
			if time.Sleep(time.Until(begun.Add(time.Duration(n) * time.Second / time.Duration(rate)))); ctx.Err() == nil {
				looking.Go(func() { lookUp(s) })
			}
		}
	})
	var took []time.Duration
	for user := firstUser; ctx.Err() == nil; user++ {
		sent := time.Now()
		if got := s.Buy(0, user, ""); got.Code != "accepted" {
			s.T.Errorf("user %d: %+v", user, got)
		}
		took = append(took, time.Since(sent))
		time.Sleep(5 * time.Millisecond) // a buyer now and then
	}
	commands := float64(queriesOf(s.T, client)-before) / time.Since(begun).Seconds()
	looking.Wait()
	slices.Sort(took)
	return lookUpLoad{rate, commands, took[len(took)/2]}
}

// lookUp looks for an unknown order as user 1. Beyond the user's limit of concurrent requests it is refused.
func lookUp(s *harness.Sale) {
	req, err := http.NewRequestWithContext(s.T.Context(), http.MethodGet, s.URLs[0]+"/api/v1/orders/77", http.NoBody)
	if err != nil {
		s.T.Error(err)
		return
	}
	req.Header.Set("X-User-ID", "1")
	resp, err := s.Client.Do(req)
	if err != nil {
		s.T.Errorf("a look-up: %v", err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusTooManyRequests {
		s.T.Errorf("a look-up: %s", resp.Status)
	}
}

// holdOrders adds an order to each voucher, which stays pending until the end of the test: a transaction holds the rows
// of the vouchers.
func holdOrders(t *testing.T, s harness.Stores) {
	t.Helper()
	db, err := sql.Open("mysql", s.DB.DSN)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	if _, err := tx.Exec("UPDATE vouchers SET title = 'held'"); err != nil {
		t.Fatal(err)
	}
	client := harness.RedisAt(t, s.Redis[0])
	vouchers, err := client.Keys(t.Context(), "*adm:{*}").Result()
	if err != nil {
		t.Fatal(err)
	}
	line := client.Pipeline()
	for n, meta := range vouchers {
		line.HSet(t.Context(), meta+":users", 900_000, 900_000+n)
		line.XAdd(t.Context(), &redis.XAddArgs{Stream: meta + ":orders", Values: []any{
			ledger.EntryOrder, 900_000 + n, ledger.EntryUser, 900_000, ledger.EntryEpoch, 2, ledger.EntrySeq, 1,
		}})
	}
	if _, err := line.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// queriesOf counts the queries about vouchers that a Redis has answered.
func queriesOf(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	stats := client.Info(t.Context(), "commandstats").Val()
	for _, m := range regexp.MustCompile(`cmdstat_(?:hget|hmget|xlen):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		calls, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

// copyVoucher copies an open voucher, in the database and in Redis.
func copyVoucher(t *testing.T, s harness.Stores, voucher string, copies int) {
	t.Helper()
	db, err := sql.Open("mysql", s.DB.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	client := harness.RedisAt(t, s.Redis[0])
	keys, err := client.Keys(t.Context(), "*adm:{"+voucher+"}").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("the voucher's keys: %v, %v", keys, err)
	}
	line := client.Pipeline()
	for n := 1; n <= copies; n++ {
		_, err := db.ExecContext(t.Context(), `INSERT INTO vouchers
			(id, title, price_cents, value_cents, initial_stock, stock, version, begin_at, end_at, policy, created_at, admission_epoch)
			SELECT id + ?, title, price_cents, value_cents, initial_stock, stock, version, begin_at, end_at, policy, created_at, admission_epoch
			FROM vouchers WHERE id = ?`, n, voucher)
		if err != nil {
			t.Fatal(err)
		}
		id, err := strconv.ParseInt(voucher, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		line.Copy(t.Context(), keys[0], strings.Replace(keys[0], voucher, fmt.Sprint(id+int64(n)), 1), 0, false)
	}
	if _, err := line.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
}
