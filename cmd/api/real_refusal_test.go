package main

import (
	"fmt"
	"net/http"
	"testing"

	"seckill/internal/testkit"
)

// While the database refuses for reasons of its own, no request is answered with 500. Requests that need the
// database are answered with 503 and Retry-After, all others as usual.
func TestDatabaseRefusesRequests(t *testing.T) {
	server := testkit.NewMariaDB(t)
	where := servers{db: server.Account(t, server.Database(t)), redis: []string{testkit.Redis(t).Addr()}}
	p := startProcess(t, where)
	locked := openSale(t, 100, `{}`, p)
	admitted := openSale(t, 100, `{"flow":"admission"}`, p)
	bought := locked.buyUntilAnswered(0, 1, "first")
	if bought.code != "created" {
		t.Fatalf("told %+v", bought)
	}
	if got := admitted.buyUntilAnswered(0, 1, "first"); got.code != "accepted" { // the process knows the voucher from here on
		t.Fatalf("told %+v", got)
	}
	user := 100
	for _, refusal := range testkit.Refusals(server, where.db) {
		t.Run(refusal.Name, func(t *testing.T) {
			end, err := refusal.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			user++
			for _, key := range []string{"", fmt.Sprint("key-", user)} {
				if got := locked.buy(0, user, key); got.code != "unavailable" {
					t.Errorf("under a lock, key %q: told %+v", key, got)
				}
			}
			if got := admitted.buyUntilAnswered(0, user, "admitted"); got.code != "accepted" {
				t.Errorf("admission told %+v", got)
			}
			for _, path := range []string{
				"/api/v1/vouchers", "/api/v1/vouchers/" + locked.voucher, "/api/v1/orders", "/api/v1/orders/" + bought.order,
				"/api/v1/vouchers/" + locked.voucher + "/audit",
			} {
				status, body := call(t, http.MethodGet, p.url+path, http.Header{"X-User-Id": {"1"}}, "")
				if status != http.StatusOK && status != http.StatusServiceUnavailable {
					t.Errorf("GET %s: %d %s", path, status, body)
				}
			}
			if status, body := call(t, http.MethodGet, p.url+"/readyz", nil, ""); status != http.StatusOK {
				t.Errorf("not ready: %d %s", status, body)
			}
			if err := end(t.Context()); err != nil {
				t.Error(err)
			}
			waitReady(t, p)
		})
	}
	admitted.atRest(0)
}
