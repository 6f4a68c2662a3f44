package service

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/httpapi"
	"seckill/internal/metrics"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
)

// PaymentsPath is where the provider sends its webhooks.
const PaymentsPath = "/api/v1/payments/events"

// payments are the payment provider and what connects it to the orders. Without a provider only lifecycle is set.
type payments struct {
	lifecycle   *order.Lifecycle
	client      *payment.Client
	settlements *payment.Settlements
	sandbox     *sandbox.Sandbox // that of an embedded service
}

// openPayments connects to the provider that is configured, or starts the sandbox of an embedded service.
func openPayments(ctx context.Context, cfg Config, stores *stores, orders *order.Service, registry *prometheus.Registry, log *slog.Logger) (_ *payments, err error) {
	p := &payments{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	to := cfg.Payment
	if to.URL == "" && cfg.Embedded {
		if err := p.openSandbox(ctx, &to, log); err != nil {
			return nil, fmt.Errorf("payment sandbox: %w", err)
		}
	}
	config := order.LifecycleConfig{Store: stores.db.Lifecycle(), Orders: orders, Log: log}
	if to.URL == "" {
		p.lifecycle, err = order.NewLifecycle(config)
		return p, err
	}
	if p.client, err = payment.NewClient(payment.ClientConfig{URL: to.URL, Key: to.APIKey}); err != nil {
		return nil, fmt.Errorf("SECKILL_PAYMENT_URL: %w", err)
	}
	provider := payment.NewProvider(p.client, to.Currency)
	config.Provider = provider
	if p.lifecycle, err = order.NewLifecycle(config); err != nil {
		return nil, err
	}
	webhooks, err := payment.NewWebhooks(to.WebhookSecrets...)
	if err != nil {
		return nil, fmt.Errorf("SECKILL_PAYMENT_WEBHOOK_SECRET: %w", err)
	}
	observer := metrics.NewPayment()
	if err := observer.Register(registry); err != nil {
		return nil, err
	}
	p.settlements, err = payment.NewSettlements(payment.SettlementsConfig{
		Webhooks: webhooks, Provider: provider, Lifecycle: p.lifecycle, Store: stores.db.Lifecycle(), Observer: observer, Log: log,
	})
	return p, err
}

// openSandbox opens a sandbox and sets what connects the service to it.
func (p *payments) openSandbox(ctx context.Context, to *paymentConfig, log *slog.Logger) (err error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	to.APIKey, to.WebhookSecrets = rand.Text(), []string{payment.SecretPrefix + base64.StdEncoding.EncodeToString(key)}
	p.sandbox, err = sandbox.Open(ctx, sandbox.Config{Addr: "127.0.0.1:0", APIKey: to.APIKey, Secrets: to.WebhookSecrets, Log: log})
	if err == nil {
		to.URL = p.sandbox.URL()
	}
	return err
}

// events returns what takes webhooks; nil if there is no provider.
func (p *payments) events() httpapi.PaymentEvents {
	if p.settlements == nil {
		return nil
	}
	return p.settlements
}

// pages returns the pages of an embedded provider, which the service serves too, and where the provider has them
// itself; nil if there is none.
func (p *payments) pages() (http.Handler, string) {
	if p.sandbox == nil {
		return nil, ""
	}
	return p.sandbox.Pages(), p.sandbox.URL()
}

// run carries out refunds, looks payments up, and serves the sandbox, until ctx ends.
func (p *payments) run(ctx context.Context, url string) error {
	if p.settlements == nil {
		return nil
	}
	if p.sandbox == nil {
		p.settlements.Run(ctx)
		return nil
	}
	p.sandbox.SetWebhookURL(url + PaymentsPath)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.settlements.Run(ctx)
	}()
	err := p.sandbox.Run(ctx)
	<-ended
	return err
}

func (p *payments) close() error {
	if p.client != nil {
		p.client.Close()
	}
	if p.sandbox != nil {
		return p.sandbox.Close()
	}
	return nil
}
