package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// The errors of a call that got no usable answer. Compare with errors.Is.
var (
	// ErrRefused: the provider did nothing, and will refuse the same call again.
	ErrRefused = errors.New("payment: refused by the provider")
	// ErrNotFound: the provider does not know the payment.
	ErrNotFound = errors.New("payment: not known to the provider")
	// ErrUnavailable: it is not known whether the provider did what it was asked. The call is to be repeated under the
	// same key.
	ErrUnavailable = errors.New("payment: no usable answer of the provider")
)

const (
	// DefaultTimeout bounds a call, from the connection to the end of the answer.
	DefaultTimeout = 10 * time.Second
	// maxAnswer bounds the body of an answer, in bytes.
	maxAnswer = 64 << 10
	// maxConnections bounds the connections to the provider.
	maxConnections = 32
)

// ClientConfig configures a [Client].
type ClientConfig struct {
	// URL is where the provider is: https://api.example.com, without /v1.
	URL string
	// Key is the API key.
	Key string
	// Timeout bounds each call; 0 means [DefaultTimeout].
	Timeout time.Duration
	// Dial connects to the provider; nil means TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Client calls the provider. It never repeats a call by itself. It is safe for use by several goroutines.
type Client struct {
	base      *url.URL
	key       string
	timeout   time.Duration
	transport *http.Transport
	http      *http.Client
}

// NewClient returns a client. It does not connect yet.
func NewClient(cfg ClientConfig) (*Client, error) {
	base, err := ParseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Key == "" {
		return nil, errors.New("payment: there is no API key")
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
	if cfg.Dial != nil {
		transport.DialContext = cfg.Dial
	}
	return &Client{base: base, key: cfg.Key, timeout: cfg.Timeout, transport: transport, http: &http.Client{
		Transport: transport,
		// A redirection would turn a POST into a GET, or take the API key elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// ParseURL parses the provider's address. Its errors do not show the address: it may contain a password.
func ParseURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want http://host:port or https://host, without user and query")
	}
	return u, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Create creates a payment, or returns the one that was created under the idempotency key.
func (c *Client) Create(ctx context.Context, key string, req CreatePayment) (Payment, error) {
	var p Payment
	if err := c.call(ctx, http.MethodPost, c.base.JoinPath("v1", "payments"), key, req, &p); err != nil {
		return Payment{}, fmt.Errorf("create a payment: %w", err)
	}
	if p.Reference != req.Reference || p.AmountCents != req.AmountCents || p.Currency != req.Currency {
		return Payment{}, fmt.Errorf("create a payment: %w: %d %.3q for %.80q, not %d %q for %q", ErrMalformed,
			p.AmountCents, p.Currency, p.Reference, req.AmountCents, req.Currency, req.Reference)
	}
	if err := checkPage(p.PayURL); err != nil {
		return Payment{}, fmt.Errorf("create a payment: %w", err)
	}
	return p, p.Check()
}

// Refund gives money back, or returns what was given back under the idempotency key.
func (c *Client) Refund(ctx context.Context, key, paymentID string, req CreateRefund) (Refund, error) {
	var r Refund
	if err := c.call(ctx, http.MethodPost, c.payment(paymentID).JoinPath("refunds"), key, req, &r); err != nil {
		return Refund{}, fmt.Errorf("refund: %w", err)
	}
	if !validID(r.ID) || r.PaymentID != paymentID || r.AmountCents != req.AmountCents || r.Currency != req.Currency {
		return Refund{}, fmt.Errorf("refund: %w: %.80q of %d %.3q for %.80q", ErrMalformed, r.ID, r.AmountCents, r.Currency, r.PaymentID)
	}
	return r, nil
}

// Payment looks a payment up, or returns [ErrNotFound].
func (c *Client) Payment(ctx context.Context, id string) (Payment, error) {
	var p Payment
	if err := c.call(ctx, http.MethodGet, c.payment(id), "", nil, &p); err != nil {
		return Payment{}, fmt.Errorf("look up a payment: %w", err)
	}
	if p.ID != id {
		return Payment{}, fmt.Errorf("look up a payment: %w: %.80q instead of %q", ErrMalformed, p.ID, id)
	}
	return p, p.Check()
}

// PaymentUnder looks up the payment that was created under an idempotency key, or returns [ErrNotFound].
func (c *Client) PaymentUnder(ctx context.Context, key string) (Payment, error) {
	address := c.base.JoinPath("v1", "payments")
	address.RawQuery = url.Values{"key": {key}}.Encode()
	var found struct {
		Payments []Payment `json:"payments"`
	}
	err := c.call(ctx, http.MethodGet, address, "", nil, &found)
	switch {
	case err != nil:
		return Payment{}, fmt.Errorf("look up a payment: %w", err)
	case len(found.Payments) == 0:
		return Payment{}, fmt.Errorf("look up a payment: %w under %q", ErrNotFound, key)
	case len(found.Payments) > 1:
		return Payment{}, fmt.Errorf("look up a payment: %w: %d under one key", ErrMalformed, len(found.Payments))
	}
	return found.Payments[0], found.Payments[0].Check()
}

func (c *Client) payment(id string) *url.URL {
	return c.base.JoinPath("v1", "payments", url.PathEscape(id))
}

// call sends one request and parses the answer.
func (c *Client) call(ctx context.Context, method string, address *url.URL, key string, body, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var sent io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(encoded)
	}
	req, err := http.NewRequestWithContext(ctx, method, address.String(), sent)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.key)
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: the answer ends early: %w", ErrUnavailable, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("%w: an answer of more than %d bytes", ErrUnavailable, maxAnswer)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		return failure(resp.StatusCode, text)
	}
	if err := Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%w: %w: %w", ErrUnavailable, ErrMalformed, err)
	}
	return nil
}

// failure returns the error of an answer that is not a success. Only a closed list of statuses says that nothing was
// done and that a repetition has no other answer. 401 and 403 are not among them: an API key that has expired must not
// turn what is owed into what is refused.
func failure(status int, body []byte) error {
	var p Problem
	_ = Unmarshal(body, &p) // the status decides; a proxy's page is no JSON
	reason := fmt.Sprintf("status %d, code %.60q, %.200q", status, p.Code, p.Message)
	switch status {
	case http.StatusNotFound:
		// A proxy's 404 is no word of the provider about a payment.
		if p.Code == CodeNotFound {
			return fmt.Errorf("%w: %s", ErrNotFound, reason)
		}
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return fmt.Errorf("%w: %s", ErrRefused, reason)
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, reason)
}

// CodeNotFound is the code with which the provider says that it does not know a payment.
const CodeNotFound = "payment_not_found"
