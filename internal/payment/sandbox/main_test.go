package sandbox_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const (
	apiKey = "key-of-the-tests"
	secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// receiver is a service that receives webhooks, and keeps those that it has accepted.
type receiver struct {
	url     string
	mu      sync.Mutex
	refuses int // how many more it does not accept
	refused int
	events  []received
}

type received struct {
	id string
	payment.Event
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	webhooks, err := payment.NewWebhooks(secret)
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return // the sandbox was stopped
		}
		id, err := webhooks.Verify(req.Header, body)
		if err != nil {
			t.Errorf("a webhook that is not accepted: %v", err)
		}
		e, err := payment.ParseEvent(body)
		if err != nil || e.Data.Check() != nil {
			t.Errorf("a malformed event: %v, %v: %s", err, e.Data.Check(), body)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.refuses > 0 {
			r.refuses, r.refused = r.refuses-1, r.refused+1
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		r.events = append(r.events, received{id, e})
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// kinds are the types of the accepted events, in the order of their arrival.
func (r *receiver) kinds() (kinds []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		kinds = append(kinds, strings.TrimPrefix(e.Type, "payment."))
	}
	return kinds
}

func (r *receiver) await(t *testing.T, want ...string) {
	t.Helper()
	testkit.Until(t, fmt.Sprint("the events ", want), func() bool { return len(r.kinds()) >= len(want) })
	if got := r.kinds(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("events %v, want %v", got, want)
	}
}

// provider is a sandbox that runs, and its client.
type provider struct {
	*payment.Client
	sandbox *sandbox.Sandbox
	stop    func()
}

func start(t *testing.T, change func(*sandbox.Config)) *provider {
	t.Helper()
	cfg := sandbox.Config{Addr: "127.0.0.1:0", APIKey: apiKey, Secrets: []string{secret}, Log: slog.New(slog.DiscardHandler)}
	change(&cfg)
	s, err := sandbox.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the sandbox ended with %v", err)
		}
	})
	t.Cleanup(stop)
	client, err := payment.NewClient(payment.ClientConfig{URL: s.URL(), Key: apiKey, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return &provider{Client: client, sandbox: s, stop: stop}
}

func startFor(t *testing.T, r *receiver, b sandbox.Behaviour) *provider {
	return start(t, func(c *sandbox.Config) { c.WebhookURL, c.Behaviour = r.url, b })
}

func anHour() payment.CreatePayment {
	return payment.CreatePayment{Reference: "42", AmountCents: 8000, Currency: "EUR", ExpiresAt: time.Now().Add(time.Hour)}
}

func (p *provider) create(t *testing.T, key string, req payment.CreatePayment) payment.Payment {
	t.Helper()
	created, err := p.Create(t.Context(), key, req)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func (p *provider) status(t *testing.T, id string) string {
	t.Helper()
	now, err := p.Payment(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return now.Status
}

// press presses a button on the payment page, as a browser does, and returns the page that follows.
func press(t *testing.T, page, decision string) string {
	t.Helper()
	resp, err := http.PostForm(page, url.Values{"decision": {decision}})
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func send(t *testing.T, base, method, path, authorization, body string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewBufferString(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", authorization)
	req.Header.Set("Idempotency-Key", "k-of-a-call")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
