package service

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit/fail"
)

// A start that fails names the setting, and leaves no folder behind, also if the embedded stores are open by then.
func TestFailedStartOfAnEmbeddedService(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for setting, given := range map[string][]string{
		"SECKILL_ADDR":       {"-addr", "256.0.0.1:1", "-lab-allow-remote"},
		"SECKILL_LAB_TRACE":  {"-lab-trace", t.TempDir()},
		"SECKILL_DEBUG_ADDR": {"-debug-addr", "0.0.0.1/32:9100"}, // no machine has an address in this network
		tracesEndpoint:       nil,
		tracesURL:            nil,
	} {
		var environ []string
		if given == nil {
			environ = []string{setting + "=collector:4318"}
		}
		cfg, err := ParseConfig(append([]string{"-addr", "127.0.0.1:0"}, given...), environ, io.Discard)
		fail.NowIf(t, err)
		if err := Run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", setting, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "seckill-*")); len(left) != 0 {
		t.Errorf("files left: %v", left)
	}
}

// The addresses in a banner can be opened.
func TestURLOfAListener(t *testing.T) {
	for ip, want := range map[string]string{"0.0.0.0": "http://localhost:80", "::": "http://localhost:80", "127.0.0.1": "http://127.0.0.1:80", "::1": "http://[::1]:80"} {
		fail.Unequal(t, urlOf(&net.TCPAddr{IP: net.ParseIP(ip), Port: 80}), want, "%s", ip)
	}
}

func TestLabSettings(t *testing.T) {
	c, err := ParseConfig([]string{"-lab-trace", "events", "-lock-watchdog", "1h"}, []string{"SECKILL_LAB_NAME=api-1"}, io.Discard)
	if err != nil || c.LabTrace != "events" || c.LabName != "api-1" || c.LockWatchdog != time.Hour {
		t.Errorf("%+v, %v", c, err)
	}
}
