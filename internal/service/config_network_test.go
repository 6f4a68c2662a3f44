package service

import (
	"io"
	"net"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

func TestInNetwork(t *testing.T) {
	t.Parallel()
	var mine []net.Addr
	for _, cidr := range []string{"127.0.0.1/8", "172.30.90.3/24", "172.31.0.7/16", "fd00:1::3/64"} {
		ip, network, err := net.ParseCIDR(cidr)
		fail.NowIf(t, err)
		mine = append(mine, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	for addr, want := range map[string]string{
		"172.30.90.0/24:9100": "172.30.90.3:9100",
		"172.31.9.9/16:9100":  "172.31.0.7:9100", // any address of the network names it
		"[fd00:1::/64]:9100":  "[fd00:1::3]:9100",
		"0.0.0.0:9100":        "0.0.0.0:9100",
		":9100":               ":9100",
		"localhost:9100":      "localhost:9100",
	} {
		if got, err := inNetwork(addr, mine); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", addr, got, err, want)
		}
	}
	if got, err := inNetwork("10.0.0.0/8:9100", mine); err == nil || !strings.Contains(err.Error(), "10.0.0.0/8") {
		t.Errorf("a network without this machine: %q, %v", got, err)
	}
	if _, err := ParseConfig([]string{"-debug-addr", "10.0.0.0/99:9100"}, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "-debug-addr") {
		t.Errorf("no network: %v", err)
	}
	if _, err := ParseConfig([]string{"-addr", "10.0.0.0/8:9100"}, nil, io.Discard); err == nil {
		t.Error("-addr takes a network")
	}
}
