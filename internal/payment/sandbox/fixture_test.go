package sandbox_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

const (
	apiKey = "key-of-the-tests"
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// receiver is a service that receives webhooks, and keeps those that it has accepted.
type receiver struct {
	*simulate.Listener
	mu       sync.Mutex
	refuses  int         // how many more it does not accept
	arrivals []time.Time // of all
	events   []received  // that were accepted
}

type received struct {
	id string
	payment.Event
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	webhooks, err := payment.NewWebhooks(secret)
	fail.NowIf(t, err)
	r := &receiver{Listener: simulate.Listen()}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sandbox was stopped
		}
		id, err := webhooks.Verify(req.Header, body)
		fail.If(t, err, "a webhook that is not accepted")
		e, err := payment.ParseEvent(body)
		if err != nil || e.Data.Check() != nil {
			t.Errorf("a malformed event: %v, %v: %s", err, e.Data.Check(), body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.arrivals = append(r.arrivals, time.Now())
		if r.refuses > 0 {
			r.refuses--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.events = append(r.events, received{id, e})
	})}
	go func() { _ = server.Serve(r) }()
	t.Cleanup(func() { _ = server.Close() })
	return r
}

// want lets so much time pass, and checks which events have been accepted by then, in this order.
func (r *receiver) want(t *testing.T, after time.Duration, want ...string) {
	t.Helper()
	simulate.Sleep(after)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := []string{}
	for _, e := range r.events {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "payment."))
	}
	fail.NowUnequal(t, fmt.Sprint(kinds), fmt.Sprint(want), "events")
}

// provider is a sandbox that runs, with clients.
type provider struct {
	*payment.Client
	sandbox *sandbox.Sandbox
	browser *http.Client
	listens *simulate.Listener
	stop    func()
}

// start runs a sandbox, in the bubble of time of the test.
func start(t *testing.T, r *receiver, change func(*sandbox.Config)) *provider {
	t.Helper()
	p := &provider{listens: simulate.Listen()}
	cfg := sandbox.Config{Listener: p.listens, APIKey: apiKey, Secrets: []string{secret}, Log: slog.New(slog.DiscardHandler)}
	if r != nil {
		cfg.WebhookURL, cfg.Dial = "http://127.0.0.1:2/events", r.Dial
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if p.sandbox, err = sandbox.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.sandbox.Run(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		fail.If(t, <-ended, "the end of the sandbox")
	})
	t.Cleanup(p.stop)
	p.Client = p.client(t, time.Minute)
	transport := &http.Transport{DialContext: p.listens.Dial}
	p.browser = &http.Client{Transport: transport}
	t.Cleanup(transport.CloseIdleConnections)
	return p
}

func behaving(t *testing.T, b sandbox.Behaviour) (*provider, *receiver) {
	r := newReceiver(t)
	return start(t, r, func(c *sandbox.Config) { c.Behaviour = b }), r
}

func (p *provider) client(t *testing.T, timeout time.Duration) *payment.Client {
	t.Helper()
	client, err := payment.NewClient(payment.ClientConfig{URL: "http://127.0.0.1:1", Key: apiKey, Timeout: timeout, Dial: p.listens.Dial})
	fail.NowIf(t, err)
	t.Cleanup(client.Close)
	return client
}

func anHour() payment.CreatePayment {
	return payment.CreatePayment{Reference: "42", AmountCents: 8000, Currency: "EUR", ExpiresAt: time.Now().Add(time.Hour)}
}

func back(cents int64) payment.CreateRefund {
	return payment.CreateRefund{AmountCents: cents, Currency: "EUR"}
}

func (p *provider) create(t *testing.T, key string, req payment.CreatePayment) payment.Payment {
	t.Helper()
	created, err := p.Create(t.Context(), key, req)
	fail.NowIf(t, err)
	return created
}

func (p *provider) wantStatus(t *testing.T, id, want string) {
	t.Helper()
	if now, err := p.Payment(t.Context(), id); err != nil || now.Status != want {
		t.Errorf("the payment is %s, %v, want %s", now.Status, err, want)
	}
}

// press presses a button on the payment page, as a browser does, and returns the page that follows.
func (p *provider) press(t *testing.T, of payment.Payment, decision string) string {
	t.Helper()
	form := url.Values{"decision": {decision}}.Encode()
	_, text := p.send(t, "POST", "/pay/"+of.ID, form, "Content-Type: application/x-www-form-urlencoded")
	return text
}

// send sends a request to the sandbox. Headers are "Name: value"; Host is one of them.
func (p *provider) send(t *testing.T, method, path, body string, headers ...string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1:1"+path, strings.NewReader(body))
	fail.NowIf(t, err)
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if req.Header.Set(name, value); name == "Host" {
			req.Host = value
		}
	}
	resp, err := p.browser.Do(req)
	fail.NowIf(t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	fail.NowIf(t, err)
	return resp.StatusCode, string(answer)
}
