package service_test

import (
	"net/http"
	"strings"
	"testing"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestAdmissionEmbedded sells on SQLite and a Redis in the process.
func TestAdmissionEmbedded(t *testing.T) {
	t.Parallel()
	r := harness.StartInProcess(t, nil, nil)
	url := harness.CurlLine.FindStringSubmatch(r.Curl)[3]
	url, _, _ = strings.Cut(url, "/api/")
	sale := harness.OpenSale(t, 50, harness.AdmissionPolicy, harness.Process{URL: url})
	codes, orders := sale.OrderAll(100, 1, nil)
	if codes["accepted"] != 50 || codes["sold_out"] != 50 {
		t.Errorf("%v", codes)
	}
	for id, user := range orders {
		if status := sale.Status(0, id, user, "?wait=20s"); status != "confirmed" {
			t.Fatalf("an order is %q", status)
		}
	}
	sale.CheckAllConfirmed(50, orders)
	for _, want := range []string{
		`seckill_admission_decisions_total{outcome="accepted"} 50`, `seckill_fulfil_delay_seconds_count 50`,
		`seckill_fulfil_backlog_orders`, `seckill_orders_total{outcome="pending"} 50`,
	} {
		testkit.Until(t, want+" is in the metrics", func() bool { // an order is counted after its entry has gone
			_, metrics := harness.Call(t, http.MethodGet, url+"/metrics", nil, "")
			return strings.Contains(metrics, want)
		})
	}
	if err := r.End(); err != nil {
		t.Errorf("a stop on request is an error: %v", err)
	}
	if logs := harness.Noticed(r.Logs.String()); logs != "" {
		t.Errorf("a normal run logged:\n%s", logs)
	}
}

// The limits of a user concern no other user.
func TestUserRate(t *testing.T) {
	t.Parallel()
	r := harness.StartInProcess(t, []string{"-user-rate", "0.1", "-user-lookups", "0.01"}, nil)
	orders := r.URLOfBanner(t) + "/api/v1/orders/77"
	for _, look := range []struct {
		user   string
		status int
	}{{"1", http.StatusNotFound}, {"1", http.StatusTooManyRequests}, {"2", http.StatusNotFound}} {
		if status, body := harness.Call(t, http.MethodGet, orders, http.Header{"X-User-Id": {look.user}}, ""); status != look.status {
			t.Errorf("user %s looks up an order: %d %s, want %d", look.user, status, body, look.status)
		}
	}
	if status, body := r.Buy(t); status != http.StatusCreated {
		t.Errorf("%d %s", status, body)
	}
	if status, body := r.Buy(t); status != http.StatusTooManyRequests || !strings.Contains(body, `"rate_limited"`) {
		t.Errorf("%d %s", status, body)
	}
}
