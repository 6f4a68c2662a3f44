package nodestore

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// Pair is a primary and its replica that stand in for one node, under an address
// that leads to whoever is the primary.
type Pair struct {
	primary, replica *testkit.RedisServer
	address          atomic.Value
}

// NewPair starts both and cuts the replica off as soon as it is in step: what is
// written from then on it does not get.
func NewPair(t *testing.T) *Pair {
	t.Helper()
	p := &Pair{primary: testkit.NewRedis(t, "--repl-diskless-sync-delay", "0")}
	p.address.Store(p.primary.Addr())
	host, port, err := net.SplitHostPort(p.primary.Addr())
	if err != nil {
		t.Fatal(err)
	}
	p.replica = testkit.NewRedis(t, "--replicaof", host+" "+port)
	replica := p.replica.Client(t)
	p.awaitLink(t, replica, "up")
	for _, setting := range []string{"masteruser", "masterauth"} { // that open nothing
		if err := replica.ConfigSet(t.Context(), setting, "nobody").Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.primary.Client(t).Do(t.Context(), "CLIENT", "KILL", "TYPE", "replica").Err(); err != nil {
		t.Fatal(err)
	}
	p.awaitLink(t, replica, "down")
	return p
}

func (p *Pair) awaitLink(t *testing.T, replica *redis.Client, state string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if strings.Contains(replica.Info(t.Context(), "replication").Val(), "master_link_status:"+state) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("waited in vain for the replica's link to be %s", state)
		}
	}
}

// Dial opens a client of the pair for a process.
func (p *Pair) Dial(t *testing.T) *redis.Client {
	t.Helper()
	return dial(t, "pair", func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, p.address.Load().(string))
	})
}

// FailOver kills the primary and promotes the replica.
func (p *Pair) FailOver(t *testing.T) {
	t.Helper()
	p.primary.Kill()
	if err := p.replica.Client(t).Do(t.Context(), "REPLICAOF", "NO", "ONE").Err(); err != nil {
		t.Fatal(err)
	}
	p.address.Store(p.replica.Addr())
}
