package service

import (
	"testing"

	"seckill/internal/testkit"
)

// The check of ZooKeeper succeeds for a server that serves, and for an ensemble of which one does.
func TestZooKeeperIsAsked(t *testing.T) {
	t.Parallel()
	server, nobody := testkit.ZooKeeper(t).Addr(), testkit.FreeAddr(t)
	for name, test := range map[string]struct {
		addrs []string
		ok    bool
	}{"serves": {[]string{server}, true}, "one of two": {[]string{nobody, server}, true}, "nobody": {[]string{nobody}, false}} {
		if err := askZooKeeper(t.Context(), test.addrs); (err == nil) != test.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
