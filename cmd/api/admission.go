package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"seckill/internal/admission"
	"seckill/internal/fulfil"
	"seckill/internal/lock/lockers"
	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/voucher"
)

// admitting is the flow admission: the gate that decides, and those who carry what it
// accepted into the database.
type admitting struct {
	*admission.Gate
	fulfiller *fulfil.Fulfiller
	// limit is the limit on what each user may ask for; nil where none is set.
	limit func(userID int64) (wait time.Duration, ok bool)
	log   *slog.Logger

	working sync.WaitGroup
	stop    context.CancelFunc
}

var _ order.Gate = (*admitting)(nil)

// openAdmission starts the flow. It goes on when ctx ends, until close: the orders that
// are being placed then are persisted too.
func openAdmission(ctx context.Context, cfg config, stores *stores, set *lockers.Set, registry prometheus.Registerer, tracing *telemetry.Tracing, log *slog.Logger) (*admitting, error) {
	locker, err := set.Locker("reentrant")
	if err != nil {
		return nil, fmt.Errorf("the lock under which vouchers are opened: %w", err)
	}
	limit, err := userLimit(cfg)
	if err != nil {
		return nil, err
	}
	metrics, err := observeAdmission(registry)
	if err != nil {
		return nil, err
	}
	watch, err := newReconcileWatch(newReconciler(stores.redis, stores.db), registry, log)
	if err != nil {
		return nil, err
	}
	warnReplicas(ctx, stores.orders, cfg.WaitReplicas, log)
	gate, err := admission.New(admission.Config{
		Client: stores.orders, Shelf: stores.db.Shelf(), Locker: locker, Log: log, Prefix: keyPrefix, Observer: tracing.Calls(metrics.gate()),
		MaxPending: cfg.Admission.MaxPending, MaxInFlight: cfg.Admission.MaxInFlight, WaitReplicas: cfg.WaitReplicas,
	})
	if err != nil {
		return nil, err
	}
	fulfiller, err := fulfil.New(fulfil.Config{
		Client: stores.orders, Shelf: tracing.Shelf(stores.db.Shelf()), Orders: stores.db.Orders(), Log: log, Prefix: keyPrefix, Observer: metrics.fulfiller(),
		Name: cfg.Admission.Instance, ClaimIdle: cfg.Admission.ClaimIdle,
	})
	if err != nil {
		return nil, errors.Join(err, gate.Close())
	}
	a := &admitting{Gate: gate, fulfiller: fulfiller, limit: limit, log: log}
	ctx, a.stop = context.WithCancel(context.WithoutCancel(ctx))
	a.working.Go(func() { fulfiller.Run(ctx) })
	a.working.Go(func() { _ = gate.Run(ctx) }) // the error is that ctx has ended
	a.working.Go(func() { watch.run(ctx) })
	return a, nil
}

// Await implements [order.Gate].
func (a *admitting) Await(ctx context.Context, o order.Order, limit time.Duration) error {
	return a.fulfiller.Await(ctx, o, limit)
}

// close decides about no more orders, finishes and acknowledges the batches that were
// begun, and leaves the rest to other processes or to the next start.
func (a *admitting) close() error {
	err := a.Close()
	a.stop()
	a.working.Wait()
	return err
}

// limitedUsers is how many users' rates are kept in mind, at 40 bytes each.
const limitedUsers = 1_000_000

// userLimit makes the limit that is configured; nil where none is.
func userLimit(cfg config) (func(userID int64) (time.Duration, bool), error) {
	if cfg.UserRate == 0 {
		return nil, nil
	}
	limiter, err := admission.NewLimiter(cfg.UserRate, max(1, int(2*cfg.UserRate)), limitedUsers)
	if err != nil {
		return nil, fmt.Errorf("SECKILL_USER_RATE: %w", err)
	}
	return limiter.Allow, nil
}

// prepareTimeout bounds the opening of a new voucher. What is not done by then is done
// when the first buyer comes.
const prepareTimeout = 2 * time.Second

// prepare makes a new voucher ready, so that the first buyer does not wait for it.
func (a *admitting) prepare(ctx context.Context, v *voucher.Voucher) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if err := errors.Join(a.fulfiller.Watch(ctx, order.Sale{VoucherID: v.ID, Buckets: v.Policy.Parts()}), a.Open(ctx, v)); err != nil {
		a.log.Warn("a new voucher is not ready yet", "voucher", v.ID, "error", err)
	}
}

// preparing is the service's vouchers, made ready when they are created.
type preparing struct {
	*voucher.Service
	admitting *admitting
}

// Create implements [httpapi.Vouchers].
func (s preparing) Create(ctx context.Context, v voucher.Voucher) (*voucher.Voucher, error) {
	created, err := s.Service.Create(ctx, v)
	if err == nil && created.Policy.Flow == voucher.FlowAdmission {
		s.admitting.prepare(ctx, created)
	}
	return created, err
}
