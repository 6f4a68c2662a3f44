package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit/fail"
)

// call sends a call of the API.
func (p *provider) call(t *testing.T, method, path, body string) (status int, text string) {
	t.Helper()
	return p.send(t, method, path, body, "Authorization: Bearer "+apiKey, "Idempotency-Key: k-of-a-call")
}

func TestCallsNeedTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil, nil)
		for _, call := range []struct{ method, path string }{
			{"POST", "/v1/payments"}, {"GET", "/v1/payments"}, {"GET", "/v1/payments/x"}, {"POST", "/v1/payments/x/refunds"},
			{"GET", "/sandbox/behaviour"}, {"PUT", "/sandbox/behaviour"},
		} {
			for key, want := range map[string]bool{"": false, "Bearer wrong": false, "Bearer " + apiKey: true} {
				if status, _ := p.send(t, call.method, call.path, "{}", "Authorization: "+key); (status != http.StatusUnauthorized) != want {
					t.Errorf("%s %s with %q: %d", call.method, call.path, key, status)
				}
			}
		}
	})
}

func TestBadCalls(t *testing.T) {
	synctest.Test(t, testBadCalls)
}

func testBadCalls(t *testing.T) {
	p := start(t, nil, nil)
	body := func(change func(*payment.CreatePayment)) string {
		req := anHour()
		change(&req)
		text, _ := json.Marshal(req)
		return string(text)
	}
	right := body(func(*payment.CreatePayment) {})
	for name, test := range map[string]struct {
		body string
		want int
	}{
		"as it should be": {right, 201},
		"no JSON":         {"{", 400},
		"nothing to pay":  {body(func(r *payment.CreatePayment) { r.AmountCents = 0 }), 400},
		"too much":        {body(func(r *payment.CreatePayment) { r.AmountCents = 1 << 60 }), 400},
		"no currency":     {body(func(r *payment.CreatePayment) { r.Currency = "" }), 400},
		"without cents":   {body(func(r *payment.CreatePayment) { r.Currency = "JPY" }), 400},
		"odd currency":    {body(func(r *payment.CreatePayment) { r.Currency = "eu1" }), 400},
		"no reference":    {body(func(r *payment.CreatePayment) { r.Reference = "" }), 400},
		"no end":          {body(func(r *payment.CreatePayment) { r.ExpiresAt = time.Time{} }), 400},
		"a newer API":     {strings.Replace(right, "{", `{"metadata":{},`, 1), 201},
		"too large":       {body(func(r *payment.CreatePayment) { r.Reference = strings.Repeat("x", 20<<10) }), 413},
	} {
		if status, answer := p.call(t, "POST", "/v1/payments", test.body); status != test.want {
			t.Errorf("%s: %d %s, want %d", name, status, answer, test.want)
		}
	}
	if status, answer := p.call(t, "POST", "/v1/payments/x/refunds", "{}"); status != 400 {
		t.Errorf("a refund of nothing: %d %s", status, answer)
	}
	for body, want := range map[string]int{
		`{"lose":0.5}`: 200, `{"lose":1.1}`: 400, `{"duplicate":-1}`: 400, `{"slow_ms":1e9}`: 400, `[]`: 400,
		// A misspelt switch that is ignored looks like a service that copes with it.
		`{"duplicates":2}`: 400, `{"lose":0.5,"slow":1}`: 400, `{"lose":0.5} {"slow_ms":1}`: 400, `{"lose":0.5}}`: 400, `{}`: 200, "{}\n": 200,
		"": 400, `{"lose":0.5`: 400,
	} {
		if status, answer := p.call(t, "PUT", "/sandbox/behaviour", body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, answer, want)
		}
	}
}

func TestPageOfNoPayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil, nil)
		want := func(path string, status int, says, saysNot string) {
			t.Helper()
			if got, text := p.send(t, "GET", path, ""); got != status || !strings.Contains(text, says) || strings.Contains(text, saysNot) {
				t.Errorf("%s: %d %s", path, got, text)
			}
		}
		created := p.create(t, "k", anHour())
		want("/pay/pay_unknown", http.StatusNotFound, "no such payment", created.ID)
		if page := p.press(t, created, "perhaps"); !strings.Contains(page, "neither pay nor refuse") {
			t.Errorf("an unknown decision: %s", page)
		}
		want("/pay/"+created.ID, http.StatusOK, "80.00 EUR", "Paid.")
		want("/", http.StatusOK, "Payments: 1,", created.ID)
	})
}

// A page of another site cannot look at a payment page or decide for the buyer, neither from its own name nor under one
// that it has made resolve to the sandbox.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	synctest.Test(t, testPagesOfOtherSitesAreRefused)
}

func testPagesOfOtherSitesAreRefused(t *testing.T) {
	p := start(t, nil, func(c *sandbox.Config) { c.Addr, c.PublicURL = "10.1.2.4:8070", "https://pay.example:8443" })
	p.browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	created := p.create(t, "k", anHour())
	sent := func(method, path, host string, headers ...string) (status int) {
		t.Helper()
		status, _ = p.send(t, method, path, "decision=pay", append(headers, "Host: "+host, "Content-Type: application/x-www-form-urlencoded")...)
		return status
	}
	for _, path := range []string{"/pay/" + created.ID, "/", "/pay.css"} {
		for _, host := range []string{"rebind.attacker.example", "localhost.attacker.example:8070", "10.1.2.3", "example"} {
			fail.Unequal(t, sent("GET", path, host), http.StatusForbidden, "GET %s at %s", path, host)
		}
		for _, host := range []string{"pay.example", "PAY.example:8443", "localhost:1", "10.1.2.4:8070"} {
			if status := sent("GET", path, host, "Sec-Fetch-Site: cross-site"); status != http.StatusOK { // a link of the shop's
				t.Errorf("GET %s at %s: %d", path, host, status)
			}
		}
	}
	for name, headers := range map[string][]string{ // the tests of lab mode, which has the same guard, have more
		"rebinding":                      {"rebind.attacker.example", "Sec-Fetch-Site: same-origin", "Origin: http://rebind.attacker.example"},
		"another site":                   {"pay.example:8443", "Sec-Fetch-Site: cross-site", "Origin: http://attacker.example"},
		"another port, an older browser": {"10.1.2.4:8070", "Origin: http://10.1.2.4:1"},
	} {
		fail.Unequal(t, sent("POST", "/pay/"+created.ID, headers[0], headers[1:]...), http.StatusForbidden, "%s", name)
	}
	p.wantStatus(t, created.ID, payment.StatusOpen)
	// A call with the key is taken under any name: a web page does not have the key.
	if status := sent("GET", "/v1/payments/"+created.ID, "payments.internal:8070", "Authorization: Bearer "+apiKey); status != http.StatusOK {
		t.Errorf("a call under another name: %d", status)
	}
	fail.Unequal(t, sent("POST", "/pay/"+created.ID, "pay.example:8443", "Origin: https://pay.example:8443"), http.StatusSeeOther, "the page's own form")
	p.wantStatus(t, created.ID, payment.StatusPaid)
	// A browser shortens the address of the public URL that was typed.
	p = start(t, nil, func(c *sandbox.Config) { c.PublicURL = "http://[2001:DB8:0::1]:8443" })
	for host, want := range map[string]int{"[2001:db8::1]:8443": http.StatusOK, "[2001:db8::2]:8443": http.StatusForbidden} {
		fail.Unequal(t, sent("GET", "/", host), want, "GET / at %s", host)
	}
}
