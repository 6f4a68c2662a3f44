package payment

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

const apiKey = "key-of-the-tests"

// newClient returns the client of a provider whose handler is serve. Both run in the test's synctest bubble, if it has
// one.
func newClient(t *testing.T, timeout time.Duration, serve http.HandlerFunc) *Client {
	t.Helper()
	l := simulate.Listen()
	server := &http.Server{Handler: serve, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	c, err := NewClient(ClientConfig{URL: "http://127.0.0.1:1", Key: apiKey, Timeout: timeout, Dial: l.Dial})
	fail.NowIf(t, err)
	t.Cleanup(c.Close)
	return c
}

func request() CreatePayment {
	return CreatePayment{Reference: "42", AmountCents: 8000, Currency: "EUR", ExpiresAt: time.Unix(1e9, 0)}
}

func open() Payment {
	return Payment{ID: "pay_1", Reference: "42", AmountCents: 8000, Currency: "EUR", Status: StatusOpen, PayURL: "https://pay.test/pay_1"}
}

// The answers that a provider, or a proxy in front of it, may give, and what the service concludes.
func TestClientTellsErrorsApart(t *testing.T) {
	problem := func(code string) string { return `{"code":"` + code + `","message":"why"}` }
	answer := func(change func(*Payment)) string {
		p := open()
		change(&p)
		text, err := json.Marshal(p)
		fail.NowIf(t, err)
		return string(text)
	}
	for name, test := range map[string]struct {
		status int
		body   string
		want   error
	}{
		"created":                  {201, answer(func(*Payment) {}), nil},
		"bad request":              {400, problem("invalid_request"), ErrRefused},
		"key of another request":   {422, problem("idempotency_key_reused"), ErrRefused},
		"too large":                {413, "", ErrRefused},
		"wrong API key":            {401, problem("unauthorized"), ErrUnavailable},
		"forbidden":                {403, "", ErrUnavailable},
		"payment not found":        {404, problem(CodeNotFound), ErrNotFound},
		"page not found":           {404, "<html>", ErrUnavailable},
		"at work":                  {409, problem("in_progress"), ErrUnavailable},
		"too often":                {429, "", ErrUnavailable},
		"failed":                   {500, problem("internal"), ErrUnavailable},
		"proxy failed":             {502, "<html>", ErrUnavailable},
		"redirected":               {307, "", ErrUnavailable},
		"success without body":     {201, "", ErrUnavailable},
		"not JSON":                 {201, "<html>", ErrUnavailable},
		"too long":                 {201, answer(func(p *Payment) { p.Reference = strings.Repeat("x", maxAnswer) }), ErrUnavailable},
		"other amount":             {201, answer(func(p *Payment) { p.AmountCents = 1 }), ErrMalformed},
		"other currency":           {201, answer(func(p *Payment) { p.Currency = "USD" }), ErrMalformed},
		"other reference":          {201, answer(func(p *Payment) { p.Reference = "43" }), ErrMalformed},
		"no id":                    {201, answer(func(p *Payment) { p.ID = "" }), ErrMalformed},
		"no page":                  {201, answer(func(p *Payment) { p.PayURL = "javascript:alert(1)" }), ErrMalformed},
		"page with a long address": {201, answer(func(p *Payment) { p.PayURL = "https://pay.test/" + strings.Repeat("x", maxURL) }), ErrMalformed},
		"STATUS for status":        {201, strings.Replace(answer(func(*Payment) {}), `"status"`, `"STATUS"`, 1), ErrMalformed},
		"status and Status":        {201, strings.Replace(answer(func(*Payment) {}), `"status"`, `"Status":"odd","status"`, 1), nil},
		"status and \u017ftatus":   {201, strings.Replace(answer(func(*Payment) {}), `"pay_url"`, `"\u017ftatus":"odd","pay_url"`, 1), nil},
		"unknown status":           {201, answer(func(p *Payment) { p.Status = "odd" }), ErrMalformed},
		"paid at no time":          {201, answer(func(p *Payment) { p.Status = StatusPaid }), ErrMalformed},
		"more refunded":            {201, answer(func(p *Payment) { p.RefundedCents = 8001 }), ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			client := newClient(t, 0, func(w http.ResponseWriter, r *http.Request) {
				fail.Unequal(t, r.URL.Path, "/v1/payments", "it followed a redirection")
				if r.Header.Get("Idempotency-Key") != "k" || r.Header.Get("Authorization") != "Bearer "+apiKey {
					t.Errorf("headers %v", r.Header)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, test.body)
			})
			p, err := client.Create(t.Context(), "k", request())
			if !errors.Is(err, test.want) || err == nil && p.ID != "pay_1" {
				t.Errorf("payment %+v, err %v, want %v", p, err, test.want)
			}
			domain := map[error]error{nil: nil, ErrRefused: order.ErrPaymentRefused, ErrNotFound: order.ErrPaymentNotFound, ErrMalformed: order.ErrPaymentUnusable}
			want, ok := domain[test.want]
			if !ok {
				want = order.ErrPaymentUnavailable
			}
			asked := order.PaymentRequest{Key: "k", OrderID: 42, AmountCents: request().AmountCents, PayBy: request().ExpiresAt}
			fail.Unless(t, fail.Of(NewProvider(client, request().Currency).Create(t.Context(), asked)), want, "what the orders are told")
			for _, other := range []error{ErrRefused, ErrNotFound, ErrUnavailable} {
				if !errors.Is(test.want, other) && errors.Is(err, other) {
					t.Errorf("the error is also %v: %v", other, err)
				}
			}
		})
	}
}

// The answer to a refund or a look-up is of what was asked for.
func TestClientChecksWhatItIsTold(t *testing.T) {
	asked := CreateRefund{AmountCents: 100, Currency: "EUR"}
	for name, change := range map[string]func(*Refund){
		"as asked": func(*Refund) {}, "no id": func(r *Refund) { r.ID = "" }, "other payment": func(r *Refund) { r.PaymentID = "pay_2" },
		"other amount": func(r *Refund) { r.AmountCents++ }, "other currency": func(r *Refund) { r.Currency = "USD" },
	} {
		client := newClient(t, 0, func(w http.ResponseWriter, _ *http.Request) {
			r := Refund{ID: "ref_1", PaymentID: "pay_1", AmountCents: 100, Currency: "EUR"}
			change(&r)
			_ = json.NewEncoder(w).Encode(r)
		})
		if _, err := client.Refund(t.Context(), "k", "pay_1", asked); (err == nil) != (name == "as asked") || err != nil && !errors.Is(err, ErrMalformed) {
			t.Errorf("a refund, %s: %v", name, err)
		}
	}
	client := newClient(t, 0, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(open()) })
	for id, want := range map[string]error{"pay_1": nil, "pay_2": ErrMalformed} {
		fail.Unless(t, fail.Of(client.Payment(t.Context(), id)), want, "looked up %s", id)
	}
}

// A provider that hangs, hangs in the middle of its answer, or cuts the connection: the outcome is unknown.
func TestClientDoesNotWaitForEver(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices that the client has gone once the body is read
		<-r.Context().Done()
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		serve http.HandlerFunc
		ctx   context.Context
		after time.Duration
		want  error // beside ErrUnavailable
	}{
		"no answer": {hang, nil, DefaultTimeout, context.DeadlineExceeded},
		"half an answer": {func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, `{"id":`)
			w.(http.Flusher).Flush()
			hang(w, r)
		}, nil, DefaultTimeout, context.DeadlineExceeded},
		"connection cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 0, io.EOF},
		"caller gave up": {hang, gone, 0, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if test.ctx != nil {
					ctx = test.ctx
				}
				client, began := newClient(t, 0, test.serve), time.Now()
				_, err := client.Create(ctx, "k", request())
				if !errors.Is(err, ErrUnavailable) || !errors.Is(err, test.want) || time.Since(began) != test.after {
					t.Errorf("after %v: %v, want %v and %v", time.Since(began), err, ErrUnavailable, test.want)
				}
			})
		})
	}
}

func TestParseURL(t *testing.T) {
	for address, valid := range map[string]bool{
		"https://api.example.com": true, "http://127.0.0.1:8070": true, "https://api.example.com/sub": true,
		"": false, "api.example.com": false, "ftp://x": false, "https://user:hidden@x": false, "https://x?hidden": false, "http://": false,
	} {
		_, err := ParseURL(address)
		if (err == nil) != valid {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("the error shows the address: %v", err)
		}
	}
}

func FuzzParseEvent(f *testing.F) {
	f.Add([]byte(`{"type":"payment.paid","timestamp":"2026-01-02T03:04:05Z","data":{"id":"pay_1","status":"paid"}}`))
	f.Add([]byte(`{"type":"","data":null}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		e, err := ParseEvent(body)
		if (err == nil) == (e.Type == "") {
			t.Errorf("%+v, %v", e, err)
		}
		_ = e.Data.Check() // must not panic
	})
}
