package loadtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit/fail"
)

// paid measures an order's whole way: it is placed, its payment is created at the provider, the buyer presses the
// button, and the provider's signed event pays it. The clock runs until the last one is paid in the database.
func (s *benchService) paid(b *testing.B) row {
	shop := s.openPaidShop(b)
	flows := []struct {
		name   string
		policy map[string]any
	}{
		{"by admission", map[string]any{"flow": "admission"}},
		{"under the default lock", map[string]any{"lock_wait_ms": 10_000}},
	}
	rates := make([][]float64, len(flows))
	for range rounds() {
		for i, flow := range flows {
			rates[i] = append(rates[i], shop.payAll(b, flow.policy))
		}
	}
	var got []string
	for i, flow := range flows {
		got = append(got, fmt.Sprintf("%s %.0f/s (%.0f to %.0f)", flow.name, median(rates[i]), slices.Min(rates[i]), slices.Max(rates[i])))
	}
	return row{
		what: "ordered and paid", got: strings.Join(got, ", "),
		note: fmt.Sprintf("Three calls or more and a press on the button of each of %d buyers at a time, who share the machine with the service, MariaDB, Redis and the provider; "+
			"until the last order is paid in MariaDB.", connections),
	}
}

// paidShop is a service with a payment provider. It shares the servers of the others.
type paidShop struct {
	*benchService
	api    service
	client *http.Client
}

func (s *benchService) openPaidShop(b *testing.B) *paidShop {
	b.Helper()
	const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // of no provider
	key := rand.Text()
	provider, err := sandbox.Open(b.Context(), sandbox.Config{
		Addr: "127.0.0.1:0", APIKey: key, Secrets: []string{webhookSecret}, Log: slog.New(slog.DiscardHandler),
	})
	fail.NowIf(b, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- provider.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		fail.If(b, <-ended)
	})
	shop := &paidShop{benchService: s, api: startAPI(b, s.dsn, s.redis.Options().Addr, "SECKILL_LOG_LEVEL=error", "SECKILL_DEBUG_ADDR=",
		"SECKILL_PAYMENT_URL="+provider.URL(), "SECKILL_PAYMENT_API_KEY="+key, "SECKILL_PAYMENT_WEBHOOK_SECRET="+webhookSecret)}
	provider.SetWebhookURL(shop.api.url + "/api/v1/payments/events")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 4*connections, 2*connections
	b.Cleanup(transport.CloseIdleConnections)
	shop.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return shop
}

// payAll has buyers order and pay for the length of a window, and returns how many orders were paid per second.
func (s *paidShop) payAll(b *testing.B, policy map[string]any) float64 {
	b.Helper()
	voucher := s.api.sell(b, time.Now(), map[string]any{
		"stock": int64(plenty), "price_cents": 8000, "pay_within_s": 3600, "policy": policy,
	})
	var users, bought atomic.Int64
	users.Store(int64(s.user))
	begun := time.Now()
	var buyers sync.WaitGroup
	for range connections {
		buyers.Go(func() {
			for time.Since(begun) < window() && b.Context().Err() == nil {
				if err := s.orderAndPay(b.Context(), voucher, users.Add(1)); err != nil {
					b.Error(err)
					return
				}
				bought.Add(1)
			}
		})
	}
	buyers.Wait()
	s.user = int(users.Load()) + 1
	for paid := int64(0); paid < bought.Load() && !b.Failed(); pause(b, time.Millisecond) {
		fail.NowIf(b, s.pool.QueryRow("SELECT COUNT(*) FROM orders WHERE voucher_id = ? AND status = 'paid'", voucher).Scan(&paid))
	}
	return float64(bought.Load()) / time.Since(begun).Seconds()
}

// orderAndPay is one buyer.
func (s *paidShop) orderAndPay(ctx context.Context, voucher string, user int64) error {
	var o struct {
		ID     string `json:"order_id"`
		Status string
	}
	if err := s.call(ctx, user, http.MethodPost, s.api.url+"/api/v1/vouchers/"+voucher+"/orders", "", &o); err != nil {
		return err
	}
	for o.Status == "pending" {
		if err := s.call(ctx, user, http.MethodGet, s.api.url+"/api/v1/orders/"+o.ID+"?wait=10s&state=pending", "", &o); err != nil {
			return err
		}
	}
	var p struct {
		URL string `json:"pay_url"`
	}
	if err := s.call(ctx, user, http.MethodPost, s.api.url+"/api/v1/orders/"+o.ID+"/payment", "", &p); err != nil {
		return err
	}
	return s.call(ctx, user, http.MethodPost, p.URL, url.Values{"decision": {"pay"}}.Encode(), nil)
}

// call sends one request. Any answer but 2xx and the redirection of the payment page is an error.
func (s *paidShop) call(ctx context.Context, user int64, method, address, form string, answer any) error {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form))
	if err != nil {
		return err
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("X-User-ID", strconv.FormatInt(user, 10))
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusSeeOther {
		return fmt.Errorf("%s %s: %d %s", method, address, resp.StatusCode, body)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(body, answer)
}
