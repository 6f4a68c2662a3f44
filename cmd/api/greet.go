package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"seckill/internal/voucher"
)

// greet prints the address of the service. An embedded service also creates a voucher and prints the command
// that orders it.
func greet(ctx context.Context, out io.Writer, cfg config, vouchers *voucher.Service, url string) error {
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
	v, err := vouchers.Create(ctx, voucher.Voucher{
		Title: "100 for 80", PriceCents: 8000, ValueCents: 10000, InitialStock: 100,
		BeginAt: now, EndAt: now.Add(24 * time.Hour), Policy: voucher.DefaultPolicy(),
	})
	if errors.Is(err, context.Canceled) {
		return nil // stopped before the voucher was created
	}
	if err != nil {
		return fmt.Errorf("create a first voucher: %w", err)
	}
	auth := "-H 'X-User-ID: 42'"
	if !cfg.Lab {
		auth = `-H "Authorization: Bearer $TOKEN"`
	}
	_, err = fmt.Fprintf(out, "seckill: serving on %s, embedded (SQLite file, in-process Redis; nothing is kept)%s\n"+
		"curl -i -X POST %s %s/api/v1/vouchers/%d/orders\n", url, mode, auth, url, v.ID)
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
