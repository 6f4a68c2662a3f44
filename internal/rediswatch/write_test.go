package rediswatch_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"seckill/internal/rediswatch"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A server that answers PING and refuses writes is noticed. The key that is written for that expires.
func TestWriteIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		client := server.Client(t)
		for _, refusal := range []string{
			"NOREPLICAS Not enough good replicas to write.",
			"OOM command not allowed when used memory > 'maxmemory'.",
			"READONLY You can't write against a read only replica.",
		} {
			fail.NowIf(t, rediswatch.Write(t.Context(), client, "seckill:"))
			server.Refuse(func(command string, _ ...string) string {
				if command == "PING" {
					return ""
				}
				return refusal
			})
			fail.NowIf(t, client.Ping(t.Context()).Err())
			if err := rediswatch.Write(t.Context(), client, "seckill:"); err == nil || !strings.Contains(err.Error(), refusal[:4]) {
				t.Errorf("%s: %v", refusal, err)
			}
			server.Refuse(nil)
		}
		server.Mini().FastForward(time.Minute)
		if keys := server.Mini().Keys(); len(keys) > 0 {
			t.Errorf("%q is kept", keys)
		}
	})
}

// Of a cluster, one primary that takes writes is enough.
func TestWriteToACluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := servers{}
		nodes := []*node{all.add(t, "noeviction"), all.add(t, "noeviction")}
		client := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{nodes[0].addr, nodes[1].addr}, DisableIdentity: true, MaxRetries: -1, MaxRedirects: -1, DialerRetries: 1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
			Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return all[addr].Dial(ctx, network, addr)
			},
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{
					{Start: 0, End: 8191, Nodes: []redis.ClusterNode{{Addr: nodes[0].addr}}},
					{Start: 8192, End: 16383, Nodes: []redis.ClusterNode{{Addr: nodes[1].addr}}},
				}, nil
			},
		})
		defer client.Close()
		for refusing := range 3 {
			if err := rediswatch.Write(t.Context(), client, "seckill:"); (err == nil) != (refusing < len(nodes)) {
				t.Errorf("%d of %d primaries refuse: %v", refusing, len(nodes), err)
			}
			if refusing < len(nodes) {
				nodes[refusing].Refuse(func(command string, _ ...string) string { return "NOREPLICAS Not enough good replicas to write." })
			}
		}
	})
}
