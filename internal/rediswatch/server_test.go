package rediswatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"seckill/internal/rediswatch"
	"seckill/internal/simulate"
)

// node is a server in this process that tells these settings.
type node struct {
	*simulate.Redis
	addr string

	mu       sync.Mutex
	policy   string
	aof      bool
	denied   []string // commands
	replicas []*node
}

// servers are reached by their addresses, and all of them through one dialer.
type servers map[string]*node

// add adds a server with AOF.
func (s servers) add(t *testing.T, policy string, replicas ...*node) *node {
	n := &node{
		Redis: simulate.NewRedis(t), addr: fmt.Sprintf("10.0.0.%d:6379", len(s)+1), policy: policy, aof: true, replicas: replicas,
	}
	n.SetHook(n.tell)
	s[n.addr] = n
	return n
}

// client returns a client of a server, or one that cannot reach it.
func (s servers) client(t *testing.T, n *node, reaches bool) *redis.Client {
	o := n.Options()
	o.Addr = n.addr
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if !reaches {
			return nil, net.ErrClosed
		}
		return s[addr].Dial(ctx, network, addr)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (n *node) set(policy string, denied ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.policy, n.denied = policy, denied
}

// tell answers the commands that tell settings and replicas.
func (n *node) tell(c *server.Peer, command string, args ...string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.Contains(n.denied, command) {
		c.WriteError("NOPERM this user has no permissions to run the '" + strings.ToLower(command) + "' command")
		return true
	}
	switch command {
	case "INFO":
		var info strings.Builder
		fmt.Fprintf(&info, "role:master\r\nmaxmemory_policy:%s\r\naof_enabled:%d\r\n", n.policy, map[bool]int{true: 1}[n.aof])
		for i, r := range n.replicas {
			host, port, _ := net.SplitHostPort(r.addr)
			fmt.Fprintf(&info, "slave%d:ip=%s,port=%s,state=online,offset=1,lag=0\r\n", i, host, port)
		}
		c.WriteBulk(info.String())
	case "CONFIG":
		value := n.policy
		if args[1] == "appendonly" {
			value = map[bool]string{true: "yes", false: "no"}[n.aof]
		}
		c.WriteStrings([]string{args[1], value})
	case "ROLE":
		c.WriteLen(3)
		c.WriteBulk("master")
		c.WriteInt(1)
		c.WriteLen(len(n.replicas))
		for _, r := range n.replicas {
			host, port, _ := net.SplitHostPort(r.addr)
			c.WriteStrings([]string{host, port, "1"})
		}
	default:
		return false
	}
	return true
}

// newWatch returns a watch and its log.
func newWatch(clients ...redis.UniversalClient) (*rediswatch.Watch, *strings.Builder) {
	var log strings.Builder
	return rediswatch.New(rediswatch.Config{Clients: clients, Log: slog.New(slog.NewTextHandler(&log, nil))}), &log
}
