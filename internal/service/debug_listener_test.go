package service_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"seckill/internal/service"
	"seckill/internal/testkit"
	"seckill/test/harness"
)

// A debug listener in a network listens at the address in it, where the health check asks, and at no other.
func TestDebugListenerInANetwork(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(testkit.FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	network := "127.0.0.1/32:" + port
	s := harness.StartInProcess(t, []string{"-debug-addr", network}, nil)
	if err := service.Healthcheck(t.Context(), service.Config{Addr: "127.0.0.1:1", DebugAddr: network}, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
	if status, _ := harness.Call(t, http.MethodGet, "http://127.0.0.1:"+port+"/readyz", nil, ""); status != http.StatusOK {
		t.Errorf("/readyz: %d", status)
	}
	if conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", "127.0.0.2:"+port); err == nil {
		conn.Close()
		t.Error("it listens at another address too")
	}
	if err := s.End(); err != nil {
		t.Error(err)
	}
	// No machine has an address in this network.
	cfg, err := service.ParseConfig([]string{"-addr", "127.0.0.1:0", "-debug-addr", "0.0.0.1/32:9100"}, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	if err := service.Run(ctx, cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "SECKILL_DEBUG_ADDR") {
		t.Errorf("err = %v, want one that names the setting", err)
	}
}

// Secrets that were given as flags are not shown by /debug/pprof/cmdline.
func TestCommandLineIsShownWithoutSecrets(t *testing.T) {
	debug := testkit.FreeAddr(t)
	harness.StartInProcess(t, []string{"-debug-addr", debug, "-jwt-secret", harness.Secret}, nil)
	if status, body := harness.Call(t, http.MethodGet, "http://"+debug+"/debug/pprof/cmdline", nil, ""); status != http.StatusOK ||
		!strings.Contains(body, filepath.Base(os.Args[0])) || strings.Contains(body, harness.Secret) {
		t.Errorf("%d %s", status, body)
	}
}
