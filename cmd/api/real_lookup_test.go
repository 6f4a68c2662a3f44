package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// An order that one process has accepted is visible at once through another one, by itself and in the list,
// whatever stage it is in.
func TestAcceptedOrdersAreShownEverywhereAtOnce(t *testing.T) {
	t.Parallel()
	const users = 400
	s := sharedServers(t).with("SECKILL_USER_LOOKUPS=1000")
	a, b := startProcess(t, s), startProcess(t, s)
	for _, policy := range []string{admissionPolicy, `{"flow":"admission","buckets":4}`} {
		sale := openSale(t, users, policy, a, b)
		var buying sync.WaitGroup
		var statuses sync.Map
		for n := range connections {
			buying.Go(func() {
				for user := n + 1; user <= users; user += connections {
					got := sale.buyUntilAnswered(0, user, "key-"+strconv.Itoa(user))
					if got.code != "accepted" {
						t.Errorf("user %d: %+v", user, got)
						continue
					}
					status := sale.status(1, got.order, user, "")
					if status != "pending" && status != "confirmed" {
						t.Errorf("%s: user %d was told of order %s, which is then %q", policy, user, got.order, status)
					}
					statuses.Store(status, true)
					if code, body := ask(t, b.url+"/api/v1/orders", user); code != http.StatusOK || !strings.Contains(body, got.order) {
						t.Errorf("%s: order %s is not listed: %d %s", policy, got.order, code, body)
					}
				}
			})
		}
		buying.Wait()
		statuses.Range(func(status, _ any) bool { t.Logf("%s: some were %s", policy, status); return true })
	}
}

// Requests for unknown orders, and for lists of orders, cost Redis as little with 600 vouchers on sale as with a few.
func TestLookUpsAmongManyVouchers(t *testing.T) {
	t.Parallel()
	const requests, vouchers = 200, 600
	s := sharedServers(t)
	p := startProcess(t, s)
	sale := openSale(t, 10, admissionPolicy, p)
	copyVoucher(t, s, sale.voucher, vouchers-1)
	client := redisAt(t, s.redis[0])
	for _, path := range []string{"/api/v1/orders/77", "/api/v1/orders"} {
		before := queriesOf(t, client)
		var asking sync.WaitGroup
		for user := range requests {
			asking.Go(func() {
				want := map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[path == "/api/v1/orders"]
				if status, body := ask(t, p.url+path, user+1); status != want {
					t.Errorf("%s: %d %s", path, status, body)
				}
			})
		}
		asking.Wait()
		// One look asks 2 questions about each voucher. To ask so for each request was 1,200.
		each := float64(queriesOf(t, client)-before) / requests
		t.Logf("GET %s: %.1f commands each, among %d vouchers", path, each, vouchers)
		if each > 100 {
			t.Errorf("GET %s: %.1f commands each, want at most 100", path, each)
		}
	}
}

// queriesOf counts the queries about vouchers that a Redis has answered.
func queriesOf(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	stats := client.Info(t.Context(), "commandstats").Val()
	for _, m := range regexp.MustCompile(`cmdstat_(?:hget|xlen):calls=(\d+)`).FindAllStringSubmatch(stats, -1) {
		calls, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

// copyVoucher copies an open voucher, in the database and in Redis.
func copyVoucher(t *testing.T, s servers, voucher string, copies int) {
	t.Helper()
	db, err := sql.Open("mysql", s.db.DSN)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	client := redisAt(t, s.redis[0])
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
