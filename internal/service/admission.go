package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/fulfil"
	"seckill/internal/lock/redis/reentrant"
	"seckill/internal/metrics"
	"seckill/internal/pairing"
	"seckill/internal/reconcile"
	"seckill/internal/room"
	"seckill/internal/telemetry"
	"seckill/internal/voucher"
)

// admissionFlow is the admission flow: the gate that decides, and the workers that persist what it accepted.
type admissionFlow struct {
	gate      *admission.Gate
	opening   *reentrant.Locker
	fulfiller *fulfil.Fulfiller
	pair      *pairing.Pairing
	log       *slog.Logger

	working sync.WaitGroup
	stop    context.CancelFunc
}

// openingLease is the lease of the lock under which a voucher is opened. The lock is renewed, so the lease only bounds
// how long the lock of a dead process delays the other processes. The epoch, not the lock, makes sure that only one of
// two processes opens the voucher.
const openingLease = 1500 * time.Millisecond

// openAdmission starts the flow. It continues after the end of ctx, until close, so that the orders in flight are
// persisted too.
func openAdmission(ctx context.Context, cfg Config, stores *stores, registry prometheus.Registerer, tracing *telemetry.Tracing, log *slog.Logger) (*admissionFlow, error) {
	observers, err := metrics.NewAdmission(registry)
	if err != nil {
		return nil, err
	}
	reconciler := NewReconciler(stores.redis, stores.db, cfg.keyPrefix())
	watch, err := reconcile.NewWatch(reconciler, registry, log)
	if err != nil {
		return nil, err
	}
	warnReplicas(ctx, stores.orders, cfg.WaitReplicas, log)
	opening, err := reentrant.New(stores.redis, reentrant.Config{Prefix: cfg.keyPrefix(), WatchdogTimeout: openingLease})
	if err != nil {
		return nil, fmt.Errorf("the lock under which vouchers are opened: %w", err)
	}
	fulfiller, err := fulfil.New(fulfil.Config{
		Client: stores.orders, Store: tracing.AdmissionStore(stores.admission()), Orders: stores.db.Orders(), Log: log, Prefix: cfg.keyPrefix(), Observer: observers.Fulfiller(), Generation: stores.pair.Generation,
		Name: cfg.Admission.Instance, ClaimIdle: cfg.Admission.ClaimIdle, FinishTimeout: finishBatches, WaitReplicas: cfg.WaitReplicas,
	})
	if err != nil {
		return nil, errors.Join(err, opening.Close())
	}
	gate, err := admission.New(admission.Config{
		Client: stores.orders, Store: stores.admission(), Workers: fulfiller, Locker: opening, Log: log, Prefix: cfg.keyPrefix(), Observer: tracing.Calls(observers.Gate()), Generation: stores.pair.Generation, Confirm: stores.pair.Confirm,
		MaxPending: cfg.Admission.MaxPending, MaxInFlight: cfg.Admission.MaxInFlight, WaitReplicas: cfg.WaitReplicas,
		OrdersPerEntry: int(cfg.Admission.OrdersPerEntry),
	})
	if err != nil {
		return nil, errors.Join(err, opening.Close())
	}
	switch err := gate.Try(ctx); {
	case errors.Is(err, ledger.ErrForbidden):
		return nil, errors.Join(fmt.Errorf("SECKILL_REDIS_ADDRS: %w: docs/servers.md has a user's ACL", err), gate.Close(), opening.Close())
	case err != nil:
		log.Warn("it is not known whether Redis permits all commands", "error", err)
	}
	forgetter, err := gate.Forgetter(observers.Forgetting(admission.ForgetConfig{
		After: cmp.Or(cfg.Admission.ForgetAfter, defaultForgetAfter), Balances: reconciler.Balances, Log: log,
	}))
	if err != nil {
		return nil, errors.Join(err, gate.Close(), opening.Close())
	}
	stores.startPairing(ctx)
	a := &admissionFlow{gate: gate, opening: opening, fulfiller: fulfiller, pair: stores.pair, log: log}
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	a.working.Go(func() { fulfiller.Run(ctx) })
	a.working.Go(func() { _ = gate.Run(ctx) }) // the error is that ctx has ended
	a.working.Go(func() { watch.Run(ctx) })
	a.working.Go(func() { gate.Returner(stores.admission()).Run(ctx) })
	a.working.Go(func() { gate.LateMoney(stores.admission()).Run(ctx) })
	a.working.Go(func() { forgetter.Run(ctx) })
	return a, nil
}

// finishBatches bounds how long a stop waits for running batches. Another process or the next start persists the
// entries of those that are not finished by then: no order is lost.
const finishBatches = 5 * time.Second

// close stops deciding orders, finishes and acknowledges the running batches, and leaves the rest to other processes or
// to the next start.
func (a *admissionFlow) close() error {
	err := a.gate.Close()
	a.stop()
	a.working.Wait()
	a.leave()
	return errors.Join(err, a.opening.Close())
}

// leave notes in the database that Redis has no accepted order that is not there: then the next start may be with
// another Redis.
func (a *admissionFlow) leave() {
	if a.pair == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if n, err := a.fulfiller.Backlog(ctx); err != nil || n > 0 {
		return
	}
	if err := a.pair.Leave(ctx); err != nil {
		a.log.Warn("the database does not know that Redis has no pending orders", "error", err)
	}
}

// prepareTimeout bounds the opening of a new voucher. If it is not open by then, the first order opens it.
const prepareTimeout = 2 * time.Second

// prepare opens a new voucher, so that the first order does not wait for it.
func (a *admissionFlow) prepare(ctx context.Context, v *voucher.Voucher) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	watched := contract.AdmissionVoucher{VoucherID: v.ID, Buckets: v.Policy.BucketCount()}
	if err := errors.Join(a.gate.Open(ctx, v), a.fulfiller.Watch(ctx, watched)); err != nil {
		a.log.Warn("a new voucher is not ready yet", "voucher", v.ID, "error", err)
	}
}

// preparedVouchers is the voucher service, with a Create that opens new vouchers, and their waiting rooms.
type preparedVouchers struct {
	*voucher.Service
	admission *admissionFlow
	rooms     *room.Service
}

// Create implements [httpapi.Vouchers].
func (s preparedVouchers) Create(ctx context.Context, v voucher.Voucher) (*voucher.Voucher, error) {
	created, err := s.Service.Create(ctx, v)
	if err == nil && created.Policy.Flow == voucher.FlowAdmission {
		s.admission.prepare(ctx, created)
	}
	return created, err
}
