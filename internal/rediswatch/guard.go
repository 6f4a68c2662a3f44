package rediswatch

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Guard refuses locks and orders while the Redis servers that hold them may evict keys. A nil guard refuses nothing:
// the embedded Redis evicts nothing.
type Guard struct {
	// Redis watches the Redis of orders and locks, Nodes the independent servers of the locks multi and red.
	Redis, Nodes *Watch
	// Allow makes the guard refuse nothing. The servers are still watched, for the metrics.
	Allow bool
}

// Run watches the servers until ctx ends.
func (g *Guard) Run(ctx context.Context) {
	if g == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.Nodes.Run(ctx)
	}()
	g.Redis.Run(ctx)
	<-done
}

// Ready is the readiness check of the Redis of orders and locks.
func (g *Guard) Ready(context.Context) error {
	if g == nil || g.Allow {
		return nil
	}
	return g.Redis.Evicts()
}

// NodesReady is the readiness check of the independent nodes.
func (g *Guard) NodesReady() error {
	if g == nil || g.Allow {
		return nil
	}
	return g.Nodes.Evicts()
}

// Register registers the metrics of the watched servers.
func (g *Guard) Register(registry prometheus.Registerer) error {
	return errors.Join(register(registry, "redis", g.Redis), register(registry, "lock-redis", g.Nodes))
}

func register(registry prometheus.Registerer, servers string, w *Watch) error {
	var errs []error
	for _, gauge := range []struct {
		name, help string
		value      func(Counts) int
	}{
		{"seckill_redis_evicting_nodes", "Redis servers whose maxmemory-policy is not noeviction: they may evict locks and accepted orders.",
			func(c Counts) int { return c.Evicting }},
		{"seckill_redis_nodes_without_aof", "Redis servers without appendonly: a restart forgets accepted orders.",
			func(c Counts) int { return c.WithoutAOF }},
		{"seckill_redis_unchecked_nodes", "Redis servers that deny their settings or their list of replicas, or have never answered: whether they evict is not known.",
			func(c Counts) int { return c.Unchecked }},
	} {
		errs = append(errs, registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: gauge.name, Help: gauge.help, ConstLabels: prometheus.Labels{"servers": servers},
		}, func() float64 { return float64(gauge.value(w.Counts())) })))
	}
	return errors.Join(errs...)
}

// Locker returns a locker that refuses a safe mechanism while its servers may evict locks. The weak mechanisms are not
// guarded: they promise nothing that eviction could break.
func (g *Guard) Locker(name string, l lock.Locker) lock.Locker {
	m, _ := lock.Lookup(name)
	switch {
	case g == nil || g.Allow || !m.Safe:
	case m.Store == lock.InRedis:
		return guarded(l, g.Redis.Evicts)
	case m.Store == lock.InNodes:
		return guarded(l, g.Nodes.Evicts)
	}
	return l
}

// guarded returns a locker that grants no lock while its servers may evict it.
func guarded(l lock.Locker, evicts func() error) lock.Locker {
	return lock.Decorate(l, func(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
		if err := evicts(); err != nil {
			return nil, fmt.Errorf("%w: %w", lock.ErrUnavailable, err)
		}
		return l.Acquire(ctx, key, opts)
	})
}

// Gate returns a gate that refuses orders while Redis may evict them.
func (g *Guard) Gate(gate order.Gate) order.Gate {
	if g == nil || g.Allow {
		return gate
	}
	return guardedGate{Gate: gate, evicts: g.Redis.Evicts}
}

type guardedGate struct {
	order.Gate
	evicts func() error
}

// Admit implements [order.Gate].
func (g guardedGate) Admit(ctx context.Context, v *voucher.Voucher, o order.Order) error {
	if err := g.evicts(); err != nil {
		return fmt.Errorf("%w: %w", order.ErrUnavailable, err)
	}
	return g.Gate.Admit(ctx, v, o)
}
