package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
)

func TestCallsNeedTheKey(t *testing.T) {
	p := start(t, func(*sandbox.Config) {})
	for _, call := range []struct{ method, path string }{
		{"POST", "/v1/payments"}, {"GET", "/v1/payments"}, {"GET", "/v1/payments/x"}, {"POST", "/v1/payments/x/refunds"},
		{"GET", "/sandbox/behaviour"}, {"PUT", "/sandbox/behaviour"},
	} {
		for key, want := range map[string]bool{"": false, "Bearer wrong": false, "Bearer " + apiKey: true} {
			status, _ := send(t, p.sandbox.URL(), call.method, call.path, key, "{}")
			if (status != http.StatusUnauthorized) != want {
				t.Errorf("%s %s with %q: %d", call.method, call.path, key, status)
			}
		}
	}
}

func TestBadCalls(t *testing.T) {
	p := start(t, func(*sandbox.Config) {})
	body := func(change func(*payment.CreatePayment)) string {
		req := anHour()
		change(&req)
		text, _ := json.Marshal(req)
		return string(text)
	}
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"as it should be": {body(func(*payment.CreatePayment) {}), 201},
		"no JSON":         {"{", 400},
		"nothing to pay":  {body(func(r *payment.CreatePayment) { r.AmountCents = 0 }), 400},
		"too much":        {body(func(r *payment.CreatePayment) { r.AmountCents = 1 << 60 }), 400},
		"no currency":     {body(func(r *payment.CreatePayment) { r.Currency = "" }), 400},
		"odd currency":    {body(func(r *payment.CreatePayment) { r.Currency = "eu1" }), 400},
		"no reference":    {body(func(r *payment.CreatePayment) { r.Reference = "" }), 400},
		"no end":          {body(func(r *payment.CreatePayment) { r.ExpiresAt = time.Time{} }), 400},
		"too large":       {body(func(r *payment.CreatePayment) { r.Reference = strings.Repeat("x", 20<<10) }), 413},
	} {
		if status, answer := send(t, p.sandbox.URL(), "POST", "/v1/payments", "Bearer "+apiKey, test.body); status != test.want {
			t.Errorf("%s: %d %s, want %d", name, status, answer, test.want)
		}
	}
	for body, want := range map[string]int{
		`{"lose":0.5}`: 200, `{"lose":1.1}`: 400, `{"duplicate":-1}`: 400, `{"slow_ms":1e9}`: 400, `[]`: 400,
		// A misspelt switch that is ignored looks like a service that copes with it.
		`{"duplicates":2}`: 400, `{"lose":0.5,"slow":1}`: 400, `{"lose":0.5} {"slow_ms":1}`: 400, `{"lose":0.5}}`: 400, `{}`: 200, "{}\n": 200,
		"": 400, `{"lose":0.5`: 400,
	} {
		if status, answer := send(t, p.sandbox.URL(), "PUT", "/sandbox/behaviour", "Bearer "+apiKey, body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, answer, want)
		}
	}
	// A client of a newer API is served.
	newer := strings.Replace(body(func(*payment.CreatePayment) {}), "{", `{"metadata":{},`, 1)
	if status, answer := send(t, start(t, func(*sandbox.Config) {}).sandbox.URL(), "POST", "/v1/payments", "Bearer "+apiKey, newer); status != 201 {
		t.Errorf("a call with an unknown member: %d %s", status, answer)
	}
}

func TestPageOfNoPayment(t *testing.T) {
	p := start(t, func(*sandbox.Config) {})
	status, text := send(t, p.sandbox.URL(), "GET", "/pay/pay_unknown", "", "")
	if status != http.StatusNotFound || !strings.Contains(text, "no such payment") {
		t.Errorf("%d %s", status, text)
	}
	created := p.create(t, "k", anHour())
	if page := press(t, created.PayURL, "perhaps"); !strings.Contains(page, "neither pay nor refuse") {
		t.Errorf("an unknown decision: %s", page)
	}
	if status, text = send(t, created.PayURL, "GET", "", "", ""); status != 200 || !strings.Contains(text, "80.00 EUR") {
		t.Errorf("%d %s", status, text)
	}
	if status, text = send(t, p.sandbox.URL(), "GET", "/", "", ""); status != 200 || !strings.Contains(text, "Payments: 1,") || strings.Contains(text, created.ID) {
		t.Errorf("%d %s", status, text)
	}
}
