package nodestore

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

// Pair is a primary and its replica in the place of one node. Clients of the pair reach whichever server is the
// primary.
type Pair struct {
	primary, replica *testkit.RedisServer
	address          atomic.Value
}

// NewPair starts both servers. As soon as the replica is in sync it cuts the replication, so that the replica misses
// every later write.
func NewPair(t *testing.T) *Pair {
	t.Helper()
	p := &Pair{primary: testkit.NewRedis(t), replica: testkit.NewRedis(t)}
	p.address.Store(p.primary.Addr())
	link := testkit.NewProxy(t, p.primary.Addr())
	p.replica.ReplicaOf(link.Addr())
	link.Cut()
	return p
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
	p.replica.Promote()
	p.address.Store(p.replica.Addr())
}
