package service

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// healthcheck queries the readiness of a running server. It is the health check of a container without a shell. An
// unspecified listen address is queried on loopback.
func healthcheck(ctx context.Context, cfg Config, _, _ io.Writer) error {
	addr := cfg.Addr
	if cfg.DebugAddr != "" {
		debug, err := cfg.debugAddr()
		if err != nil {
			return err
		}
		addr = debug
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s: %w", addr, err)
	}
	if allInterfaces(addr) {
		host = "127.0.0.1"
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	url := "http://" + net.JoinHostPort(host, port) + "/readyz"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	// http.DefaultClient would ask the proxy of HTTP_PROXY, for which this address is another machine's.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready: %s answered %s", url, resp.Status)
	}
	return nil
}
