package service

import (
	"errors"
	"fmt"
	"strings"

	"seckill/internal/payment"
)

// paymentConfig is the configuration of payments. Without a URL there is no provider, except that an embedded service
// starts a sandbox.
type paymentConfig struct {
	URL, APIKey string
	// WebhookSecrets has several while one is being replaced.
	WebhookSecrets []string
	Currency       string
}

const (
	defaultCurrency = "EUR"
	minAPIKey       = 16
)

func paymentSettings() []setting {
	return []setting{
		{name: "payment-url", arg: "URL", usage: "the payment provider, https://host for instance (default: none; embedded: a sandbox in the process)", address: true,
			set: func(c *Config, v string) error { c.Payment.URL = v; return checkProvider(v) }},
		{name: "payment-api-key", arg: "key", usage: fmt.Sprintf("API key of the payment provider, %d bytes or more", minAPIKey), secret: true,
			set: func(c *Config, v string) error { c.Payment.APIKey = v; return checkHeaderSecret(v, minAPIKey) }},
		{name: "payment-webhook-secret", arg: "secret", usage: "secret of the provider's webhooks, whsec_ and base64; two, separated by a space, while one is being replaced", secret: true,
			set: func(c *Config, v string) error {
				c.Payment.WebhookSecrets = strings.Fields(v)
				for _, secret := range c.Payment.WebhookSecrets {
					if err := checkWebhookSecret(secret); err != nil {
						return err
					}
				}
				_, err := payment.NewWebhooks(c.Payment.WebhookSecrets...) // at least one
				return err
			}},
		{name: "payment-currency", arg: "code", usage: "currency of all prices, three letters of ISO 4217; its minor unit must be a hundredth, so not JPY (default " + defaultCurrency + ")",
			set: func(c *Config, v string) error { c.Payment.Currency = v; return payment.CheckCurrency(v) }},
	}
}

// takesPayments reports whether there is a provider.
func (c *Config) takesPayments() bool { return c.Payment.URL != "" || c.Embedded }

func (p paymentConfig) validate() error {
	switch {
	case p.URL == "" && p.APIKey != "":
		return errors.New("SECKILL_PAYMENT_API_KEY is set, but SECKILL_PAYMENT_URL names no provider")
	case p.URL == "" && len(p.WebhookSecrets) > 0:
		return errors.New("SECKILL_PAYMENT_WEBHOOK_SECRET is set, but SECKILL_PAYMENT_URL names no provider")
	case p.URL != "" && p.APIKey == "":
		return errors.New("SECKILL_PAYMENT_API_KEY is missing: SECKILL_PAYMENT_URL is set, and the provider has to know who calls")
	case p.URL != "" && len(p.WebhookSecrets) == 0:
		return errors.New("SECKILL_PAYMENT_WEBHOOK_SECRET is missing: SECKILL_PAYMENT_URL is set, and without it anybody could say that an order is paid")
	}
	return nil
}

func checkProvider(v string) error {
	_, err := payment.ParseURL(v)
	return err
}
