package deploy_test

import (
	"slices"
	"strings"
	"testing"
)

// Behind the balancer the instances' limits per address are off, so the balancer has them.
func TestBalancerLimitsClients(t *testing.T) {
	balancer := read(t, "docs/haproxy/haproxy.cfg")
	for _, want := range []string{
		"timeout http-request 10s", "timeout http-keep-alive 60s", "stick-table type ipv6 size 100k expire 1m store conn_cur",
		"tcp-request connection track-sc0 src,ipmask(32,64)", "tcp-request connection reject if { sc0_conn_cur gt 1024 }",
	} {
		if !slices.ContainsFunc(strings.Split(balancer, "\n"), func(line string) bool { return strings.TrimSpace(line) == want }) {
			t.Errorf("docs/haproxy/haproxy.cfg has no line %q", want)
		}
	}
	api := mustLoad(t, secrets()).Services["api"]
	for _, name := range []string{"SECKILL_MAX_REQUESTS_PER_ADDRESS", "SECKILL_MAX_CONNECTIONS_PER_ADDRESS"} {
		if got := setting(api, name); got != "0" {
			t.Errorf("%s is %q: all clients have the balancer's address", name, got)
		}
	}
}
