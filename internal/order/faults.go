package order

import (
	"context"
	"errors"

	"seckill/internal/lock"
)

// This file belongs to the laboratory: it makes an order fail at named points. The locked flow in
// locked.go does not need it.
//
//	holder-crash      after the lock was acquired
//	critical-section  after the checks, before the first write
//	before-commit     after the writes, before the commit
//	after-commit      after the commit
//	before-release    before the lock is released
//
// The point before the first write is a call that the flow makes if there is one. Each other point is a wrapper around
// the store, the transaction, the lock or the lease. An order whose policy has no faults runs without any of them.

// injectFaults wraps the order's store and lock, if any of the policy's faults hits this user.
func (p *lockedOrder) injectFaults() error {
	faults, err := lock.NewFaults(p.voucher.Policy.FaultsFor(p.order.UserID), nil)
	if err != nil || faults == nil {
		return err
	}
	f := &faultPlan{faults: faults}
	p.store = &faultyStore{Store: p.store, plan: f}
	p.locker = &faultyLocker{Locker: p.locker, plan: f}
	p.beforeWrite = func(ctx context.Context) error { return f.pass(ctx, lock.CriticalSection) }
	return nil
}

// faultPlan is what happens to one order. It serves one goroutine.
type faultPlan struct {
	faults *lock.Faults
	// abandoned: a fault ended the work as a crash would. Nothing may be released then.
	abandoned bool
}

// pass runs the faults of a point. It ignores the end of ctx, as a stopped process does.
func (f *faultPlan) pass(ctx context.Context, at lock.Point) error {
	err := f.faults.PassUninterrupted(ctx, at)
	f.abandoned = f.abandoned || errors.Is(err, lock.ErrAbandoned)
	return err
}

// faultyStore adds before-commit and after-commit.
type faultyStore struct {
	Store
	plan *faultPlan
}

// Transact implements [Store].
func (s *faultyStore) Transact(ctx context.Context, fn func(ctx context.Context, tx Tx) error) error {
	err := s.Store.Transact(ctx, func(ctx context.Context, tx Tx) error {
		if err := fn(ctx, faultyTx{tx}); err != nil {
			return err
		}
		return s.plan.pass(ctx, lock.BeforeCommit)
	})
	if err != nil {
		return err
	}
	return s.plan.pass(ctx, lock.AfterCommit)
}

// faultyTx sends the writes before before-commit.
type faultyTx struct{ Tx }

// Insert implements [Tx]. It sends the writes at once, so that the points that follow find them done.
func (t faultyTx) Insert(ctx context.Context, o Order, unique bool) error {
	if err := t.Tx.Insert(ctx, o, unique); err != nil {
		return err
	}
	return t.Flush(ctx)
}

// faultyLocker adds holder-crash, and passes the faults on to the mechanism, which has points of
// its own.
type faultyLocker struct {
	lock.Locker
	plan *faultPlan
}

// Acquire implements [lock.Locker].
func (l *faultyLocker) Acquire(ctx context.Context, key string, opts lock.Options) (lock.Lease, error) {
	l.plan.abandoned = false
	lease, err := l.Locker.Acquire(lock.WithFaults(ctx, l.plan.faults), key, opts)
	if err != nil {
		return nil, err
	}
	faulty := &faultyLease{Lease: lease, plan: l.plan}
	passed := false
	defer func() {
		if !passed { // the fault returned an error or panicked; only a crash keeps the lock
			_ = faulty.Release(ctx)
		}
	}()
	if err := l.plan.pass(ctx, lock.HolderCrash); err != nil {
		return nil, err
	}
	passed = true
	return faulty, nil
}

// faultyLease adds before-release. The lease of an order that was abandoned stays as it is, as that
// of a process that died does.
type faultyLease struct {
	lock.Lease
	plan *faultPlan
}

// Release implements [lock.Lease].
func (l *faultyLease) Release(ctx context.Context) error {
	if !l.plan.abandoned {
		_ = l.plan.pass(ctx, lock.BeforeRelease) // any error but ErrAbandoned changes nothing
	}
	if l.plan.abandoned {
		lock.Abandon(l.Lease)
		return nil
	}
	return lock.Release(ctx, l.Lease) // ctx may have ended during a pause
}
