package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
)

// sandboxCommand is the command "api payment-sandbox" with its flags.
type sandboxCommand struct {
	listen, webhookURL, publicURL, file string
	behaviour                           sandbox.Behaviour
}

// parse reads the command's flags and, of the service's settings, the secrets that both sides know.
func (c *sandboxCommand) parse(args, environ []string, help io.Writer) (Config, error) {
	flags := flag.NewFlagSet("api payment-sandbox", flag.ContinueOnError)
	flags.StringVar(&c.listen, "listen", "127.0.0.1:8070", "where to serve")
	flags.StringVar(&c.webhookURL, "webhook-url", "http://127.0.0.1:8080"+PaymentsPath, "where the service takes webhooks")
	flags.StringVar(&c.publicURL, "public-url", "", "how browsers reach the sandbox")
	flags.StringVar(&c.file, "file", "", "keep payments in this file")
	flags.Func("behaviour", "how to misbehave, as JSON", func(v string) (err error) {
		c.behaviour, err = sandbox.ParseBehaviour([]byte(v))
		return err
	})
	cfg, err := parseSettings(flags, args, environ, help)
	if err != nil {
		return cfg, err
	}
	if cfg.Payment.APIKey == "" || len(cfg.Payment.WebhookSecrets) == 0 {
		return cfg, errors.New("the sandbox needs SECKILL_PAYMENT_API_KEY and SECKILL_PAYMENT_WEBHOOK_SECRET, those of the service")
	}
	for name, address := range map[string]string{"-webhook-url": c.webhookURL, "-public-url": c.publicURL} {
		if _, err := payment.ParseURL(address); err != nil && address != "" {
			return cfg, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := checkAddr(c.listen); err != nil {
		return cfg, fmt.Errorf("-listen: %w", err)
	}
	return cfg, nil
}

// run serves until ctx ends.
func (c *sandboxCommand) run(ctx context.Context, cfg Config, out, logs io.Writer) error {
	log := slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: cfg.LogLevel}))
	s, err := sandbox.Open(ctx, sandbox.Config{
		Addr: c.listen, PublicURL: c.publicURL, APIKey: cfg.Payment.APIKey, Secrets: cfg.Payment.WebhookSecrets,
		WebhookURL: c.webhookURL, File: c.file, Behaviour: c.behaviour, Log: log,
	})
	if err != nil {
		return err
	}
	kept := "nothing is kept"
	if c.file != "" {
		kept = "payments are kept in " + c.file
	}
	if _, err := fmt.Fprintf(out, "payment sandbox: no money moves; serving on %s, %s\n", s.URL(), kept); err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Run(ctx)
}
