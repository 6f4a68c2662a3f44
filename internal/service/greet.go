package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"seckill/internal/payment/sandbox"
	"seckill/internal/voucher"
)

// greet prints the address of the service. An embedded service also creates a voucher and prints the command that
// orders it, and with the sandbox one that is to be paid, with the commands that order it, pay it and show it.
func greet(ctx context.Context, out io.Writer, cfg Config, vouchers *voucher.Service, payments *sandbox.Sandbox, url string) error {
	mode := ""
	if allInterfaces(cfg.Addr) {
		mode = ", on all interfaces"
	}
	if cfg.Lab {
		mode += ", lab mode"
	}
	if !cfg.Embedded {
		_, err := fmt.Fprintf(out, "seckill: serving on %s%s\n", url, mode)
		return err
	}
	now := time.Now()
	sale := voucher.Voucher{
		Title: "100 for 80", PriceCents: 8000, ValueCents: 10000, InitialStock: 100,
		BeginAt: now, EndAt: now.Add(24 * time.Hour), Policy: voucher.DefaultPolicy(),
	}
	v, err := vouchers.Create(ctx, sale)
	sale.Title, sale.PayWithin = "100 for 80, to be paid", 15*time.Minute
	var paid *voucher.Voucher
	if err == nil && payments != nil {
		paid, err = vouchers.Create(ctx, sale)
	}
	if errors.Is(err, context.Canceled) {
		return nil // stopped before the vouchers were created
	}
	if err != nil {
		return fmt.Errorf("create a first voucher: %w", err)
	}
	auth := "-H 'X-User-ID: 42'"
	if !cfg.Lab {
		auth = `-H "Authorization: Bearer $TOKEN"`
	}
	text := fmt.Sprintf("seckill: serving on %s, embedded (SQLite file, in-process Redis; nothing is kept)%s\n"+
		"curl -i -X POST %s %s/api/v1/vouchers/%d/orders\n", url, mode, auth, url, v.ID)
	if paid != nil {
		text += fmt.Sprintf("seckill: payment sandbox on %s, in this process (no money moves); a voucher that is to be paid:\n"+
			`ORDER=$(curl -s -X POST %s %s/api/v1/vouchers/%d/orders | sed 's/.*"order_id":"\([0-9]*\)".*/\1/')`+"\n"+
			`PAGE=$(curl -s -X POST %s %s/api/v1/orders/$ORDER/payment | sed 's/.*"pay_url":"\([^"]*\)".*/\1/')`+"\n"+
			`curl -s -o /dev/null -d decision=pay $PAGE`+"\n"+
			`curl -s %s "%s/api/v1/orders/$ORDER?wait=2s"`+"\n",
			payments.URL(), auth, url, paid.ID, auth, url, auth, url)
	}
	_, err = io.WriteString(out, text)
	return err
}

// allInterfaces reports whether an address to listen on names no interface.
func allInterfaces(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}
