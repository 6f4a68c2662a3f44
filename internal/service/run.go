package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"seckill/internal/auth"
	"seckill/internal/buildinfo"
	"seckill/internal/httpapi"
	"seckill/internal/idempotency"
	"seckill/internal/lock"
	"seckill/internal/lock/mysql/row"
	"seckill/internal/logbuffer"
	"seckill/internal/order"
	"seckill/internal/readiness"
	"seckill/internal/rediswatch"
	"seckill/internal/room"
	"seckill/internal/telemetry"
	"seckill/internal/voucher"
	"seckill/internal/web"
)

// Run runs the service from start to stop. It is also the diagram of the system: everything is wired here. It returns
// when ctx has ended and everything is closed, or with the error that prevented the start or ended the serving. Text
// for people goes to out, the log to logs.
func Run(ctx context.Context, cfg Config, out, logs io.Writer) (err error) {
	// Deferred calls run in reverse order, so the log ends last.
	log, lines := startLog(cfg, logs)
	defer func() { err = errors.Join(err, lines.Close()) }()

	tracing, err := startTracing(ctx, cfg.Traces, log)
	if err != nil {
		return err
	}
	defer closeTracing(ctx, tracing)

	stores, err := openStores(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.close()) }()

	ids, err := openIDs(ctx, cfg, stores, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ids.close()) }()

	registry := newRegistry(stores, lines)
	guard, err := openGuard(ctx, cfg, stores, registry, log)
	if err != nil {
		return err
	}

	rec, err := openEventLog(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.close()) }()

	handovers := &lock.Handovers{}
	lockers, err := openLockers(stores.locks(cfg.ZooKeeperAddrs), cfg, registry, handovers, guard, rec.Recorder, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lockers.Close()) }()

	// Closed after the last request was answered, and before the locks and the stores.
	admission, err := openAdmission(ctx, cfg, stores, registry, tracing, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, admission.close()) }()

	vouchers := newVouchers(cfg, stores, ids, lockers, admission, registry, log)
	orders, err := order.NewService(order.Config{
		Store: rec.store(stores.db.Orders()), Vouchers: vouchers.Cache, Room: vouchers.rooms,
		IDs: ids, Lockers: lockers, Gate: tracing.Gate(guard.Gate(admission.gate)), Now: time.Now, Log: log, Lab: cfg.Lab,
	})
	if err != nil {
		return err
	}
	money, err := openPayments(ctx, cfg, stores, orders, registry, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, money.close()) }()
	api, err := newAPI(cfg, money, httpapi.Deps{
		Orders: rec.orders(orders), Lifecycle: money.lifecycle, Events: money.events(), Vouchers: vouchers, Rooms: vouchers.rooms, Idempotency: stores.db.Idempotency(), IDs: ids,
		Lockers: lockers, Handovers: handovers, Ready: readiness.New(readinessConfig(cfg, stores, admission, guard, ids), log), Log: log, Registerer: registry, Gatherer: registry, Now: time.Now,
	})
	if err != nil {
		return err
	}
	return serve(ctx, cfg, api, tracing.Handler(api.Public()), log, append(background(stores, guard, vouchers.rooms, money, log),
		func(ctx context.Context, url string) error {
			return greet(ctx, out, cfg, vouchers.Service, money.sandbox, url)
		})...)
}

// newAPI returns the HTTP interface: deps with tokens, limits and the pages.
func newAPI(cfg Config, money *payments, deps httpapi.Deps) (_ *httpapi.API, err error) {
	deps.Tokens, err = auth.NewTokens(cfg.secret(), time.Now)
	if err != nil {
		return nil, fmt.Errorf("SECKILL_JWT_SECRET: %w", err)
	}
	site, err := web.New(web.Config{Lab: cfg.Lab, Currency: cfg.Payment.Currency, Locks: deps.Lockers.Names()})
	if err != nil {
		return nil, err
	}
	limits, err := newLimits(cfg)
	if err != nil {
		return nil, err
	}
	deps.PaymentPages, deps.PaymentPagesURL = money.pages()
	deps.Site, deps.Limit, deps.Lookups, deps.Keys, deps.Cancels = site, limits.orders, limits.lookups, limits.keys, limits.cancels
	return httpapi.New(httpapi.Config{
		Lab: cfg.Lab, Limits: cfg.Bounds, LabHosts: cfg.LabHosts, AdminToken: cfg.AdminToken, DebugListener: cfg.DebugAddr != "", CommandLine: hide(os.Args),
	}, deps)
}

// background is the work beside the requests.
func background(stores *stores, guard *rediswatch.Guard, rooms *room.Service, money *payments, log *slog.Logger) []func(ctx context.Context, url string) error {
	return []func(ctx context.Context, url string) error{
		func(ctx context.Context, _ string) error { guard.Run(ctx); return nil },
		func(ctx context.Context, _ string) error { rooms.Run(ctx); return nil },
		func(ctx context.Context, _ string) error { money.lifecycle.RunExpiry(ctx); return nil },
		money.run,
		func(ctx context.Context, _ string) error {
			sweepUntil(ctx, log, "idempotency keys were not swept", func(ctx context.Context, limit int) (int64, error) {
				return stores.db.Idempotency().Sweep(ctx, time.Now().Add(-idempotency.KeepAnswers), limit)
			})
			return nil
		},
		func(ctx context.Context, _ string) error {
			if rows := stores.db.RowPool(); rows != nil {
				sweepUntil(ctx, log, "expired rows of locks were not swept", func(ctx context.Context, limit int) (int64, error) {
					return row.Sweep(ctx, rows, limit)
				})
			}
			return nil
		},
	}
}

func newVouchers(cfg Config, stores *stores, ids idSource, lockers voucher.Lockers, admission *admissionFlow, registry prometheus.Registerer, log *slog.Logger) preparedVouchers {
	cache := voucher.NewCache(stores.db.Vouchers(), 0, time.Now)
	return preparedVouchers{admission: admission, rooms: newRooms(cfg, stores, cache, admission.gate, registry, log), Service: &voucher.Service{
		Cache: cache, Store: stores.db.Vouchers(),
		IDs: ids, Lockers: hintingLockers{lockers}, Unsuited: stores.db.Unsuited, Admission: true, Gate: admission.gate, Payments: cfg.takesPayments(), Lab: cfg.Lab, Now: time.Now,
	}}
}

// newRegistry returns a registry with the metrics of the build, the runtime, the process and the pools of connections.
func newRegistry(s *stores, lines *logbuffer.Writer) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(buildinfo.Read().Metric(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	registry.MustRegister(s.pools(), droppedLines(lines))
	for name, pool := range s.db.Pools() {
		registry.MustRegister(collectors.NewDBStatsCollector(pool, name))
	}
	return registry
}

// lastTraces bounds how long a stop waits until the last spans are sent.
const lastTraces = 3 * time.Second

func closeTracing(ctx context.Context, tracing *telemetry.Tracing) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
	defer cancel()
	tracing.Close(ctx)
}
