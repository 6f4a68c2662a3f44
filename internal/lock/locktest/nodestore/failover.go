package nodestore

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

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
