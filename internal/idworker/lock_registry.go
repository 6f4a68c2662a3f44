package idworker

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"sync"

	"seckill/internal/lock"
)

// NewSonyflakeWithLocks is [NewSonyflake] for machine ids that are locks instead of keys in Redis. The mechanism needs
// a fixed lease that can be extended. It has no marks, see the package documentation: choose a range of some thousand
// machine ids that nothing else leases from.
func NewSonyflakeWithLocks(ctx context.Context, locker lock.Locker, cfg Config) (*Sonyflake, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return newSonyflake(ctx, &lockRegistry{locker: locker, cfg: cfg, held: map[string]lock.Lease{}}, cfg)
}

// lockRegistry leases a machine id by locking it.
type lockRegistry struct {
	locker lock.Locker
	cfg    Config

	mu   sync.Mutex
	held map[string]lock.Lease // by token
	last int
}

var _ registry = (*lockRegistry)(nil)

// acquire tries successive machine ids, starting from a random one.
func (r *lockRegistry) acquire(ctx context.Context, _ reservation) (grant, error) {
	available := r.cfg.available()
	first := mathrand.IntN(available)
	for i := range min(maxTries, available) {
		machine := r.cfg.FirstMachine + uint16((first+i)%available)
		lease, err := r.locker.Acquire(ctx, "machine-id:"+strconv.Itoa(int(machine)), lock.Options{TTL: r.cfg.TTL})
		if errors.Is(err, lock.ErrNotAcquired) {
			continue
		}
		if err != nil {
			return grant{}, fmt.Errorf("idworker: lock machine id %d: %w", machine, err)
		}
		return r.keep(machine, lease), nil
	}
	return grant{}, &busyError{wait: r.cfg.TTL, reason: fmt.Sprintf("%d that were tried are locked", min(maxTries, available))}
}

func (r *lockRegistry) keep(machine uint16, lease lock.Lease) grant {
	r.mu.Lock()
	defer r.mu.Unlock()
	for token, old := range r.held { // those that ended while nobody could reach the lock's server
		if old.Remaining() <= 0 {
			delete(r.held, token)
		}
	}
	r.last++
	g := grant{machine: machine, token: strconv.Itoa(r.last)}
	r.held[g.token] = lease
	return g
}

// renew extends the lease. The caller counts its deadline from before this call, so the lease cannot end first.
func (r *lockRegistry) renew(ctx context.Context, g grant, _ reservation) error {
	r.mu.Lock()
	lease := r.held[g.token]
	r.mu.Unlock()
	if lease == nil {
		return fmt.Errorf("%w: %d was released", errLost, g.machine)
	}
	err := lease.Extend(ctx, r.cfg.TTL)
	switch {
	case errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrExpired) || errors.Is(err, lock.ErrLost):
		r.forget(g)
		return fmt.Errorf("%w: %w", errLost, err)
	case err != nil:
		return fmt.Errorf("idworker: extend the lock of machine id %d: %w", g.machine, err)
	}
	return nil
}

// release unlocks the machine id once the tick of its last id is over, so that the next holder cannot mint in it.
func (r *lockRegistry) release(ctx context.Context, g grant, _ int64) error {
	lease := r.forget(g)
	if lease == nil {
		return nil
	}
	if err := sleep(ctx, 2*unit); err != nil {
		return err
	}
	return lease.Release(ctx)
}

func (r *lockRegistry) forget(g grant) lock.Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	lease := r.held[g.token]
	delete(r.held, g.token)
	return lease
}
