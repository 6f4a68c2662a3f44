package sandbox_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit"
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

// A browser shortens the address of the public URL that was typed.
func TestPagesAtAnAddressWrittenInAnotherForm(t *testing.T) {
	address := testkit.FreeAddr(t)
	start(t, func(c *sandbox.Config) { c.Addr, c.PublicURL = address, "http://[2001:DB8:0::1]:8443" })
	for host, want := range map[string]int{"[2001:db8::1]:8443": http.StatusOK, "[2001:db8::2]:8443": http.StatusForbidden} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != want {
			t.Errorf("%s: %d, %v, want %d", host, resp.StatusCode, err, want)
		}
	}
}

// A page of another site cannot look at a payment page or decide for the buyer, neither from its own name nor under one
// that it has made resolve to the sandbox.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	address := testkit.FreeAddr(t)
	p := start(t, func(c *sandbox.Config) { c.Addr, c.PublicURL = address, "https://pay.example:8443" })
	client, err := payment.NewClient(payment.ClientConfig{URL: "http://" + address, Key: apiKey, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p.Client = client
	id := p.create(t, "k", anHour()).ID
	sent := func(method, path, host string, headers ...string) (status int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, strings.NewReader("decision=pay"))
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for _, header := range headers {
			name, value, _ := strings.Cut(header, ": ")
			req.Header.Set(name, value)
		}
		resp, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		return resp.StatusCode
	}
	for _, path := range []string{"/pay/" + id, "/", "/pay.css"} {
		for _, host := range []string{"rebind.attacker.example", "localhost.attacker.example:8070", "10.1.2.3", "example"} {
			if status := sent("GET", path, host); status != http.StatusForbidden {
				t.Errorf("GET %s at %s: %d", path, host, status)
			}
		}
		for _, host := range []string{"pay.example", "PAY.example:8443", "localhost:1", address} {
			if status := sent("GET", path, host, "Sec-Fetch-Site: cross-site"); status != http.StatusOK { // a link of the shop's
				t.Errorf("GET %s at %s: %d", path, host, status)
			}
		}
	}
	for name, headers := range map[string][]string{
		"rebinding":                      {"rebind.attacker.example", "Sec-Fetch-Site: same-origin", "Origin: http://rebind.attacker.example"},
		"another site":                   {"pay.example:8443", "Sec-Fetch-Site: cross-site", "Origin: http://attacker.example"},
		"another site, no origin":        {"pay.example:8443", "Sec-Fetch-Site: cross-site"},
		"another site, older browser":    {"pay.example:8443", "Origin: http://attacker.example"},
		"another port of the same name":  {"pay.example:8443", "Sec-Fetch-Site: same-site", "Origin: https://pay.example:3000"},
		"a sandboxed frame, or a file":   {"pay.example:8443", "Origin: null"},
		"another port, an older browser": {address, "Origin: http://127.0.0.1:1"},
	} {
		if status := sent("POST", "/pay/"+id, headers[0], headers[1:]...); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	if now := p.status(t, id); now != payment.StatusOpen {
		t.Errorf("after the refusals the payment is %s", now)
	}
	// A call with the key is taken under any name: a web page does not have the key.
	if status := sent("GET", "/v1/payments/"+id, "payments.internal:8070", "Authorization: Bearer "+apiKey); status != http.StatusOK {
		t.Errorf("a call under another name: %d", status)
	}
	if status := sent("POST", "/pay/"+id, "pay.example:8443", "Origin: https://pay.example:8443"); status != http.StatusSeeOther {
		t.Errorf("the page's own form: %d", status)
	}
	if now := p.status(t, id); now != payment.StatusPaid {
		t.Errorf("after the page's own form the payment is %s", now)
	}
}
