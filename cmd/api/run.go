package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"seckill/internal/auth"
	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/voucher"
)

// finishTimeout is how long a stop waits for the requests that are under way.
const finishTimeout = 20 * time.Second

// run is the service from start to stop, and the picture of how it is put
// together. It returns when ctx has ended and everything is closed, or with the
// error that kept it from starting or serving. What a person wants to read goes to
// out, the log to logs.
func run(ctx context.Context, cfg config, out, logs io.Writer) (err error) {
	// The log ends when everything else has: deferred calls run from the bottom up.
	log, endLog := startLog(ctx, cfg, logs)
	defer func() { err = errors.Join(err, endLog()) }()

	tracing, err := telemetry.Start(ctx, cfg.TracesEndpoint, log)
	if err != nil {
		return fmt.Errorf("%s: %w", tracesEndpoint, err)
	}
	defer closeTracing(ctx, tracing)

	stores, err := openStores(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stores.close()) }()
	db := stores.db

	ids, err := openIDs(ctx, cfg.IDs, stores.redis, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ids.close()) }()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for name, pool := range db.Pools() {
		registry.MustRegister(collectors.NewDBStatsCollector(pool, name))
	}

	rec, err := openTrace(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rec.close()) }()

	lockers, err := openLockers(stores.locks(cfg.ZooKeeperAddrs), cfg, registry, rec.Recorder, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lockers.Close()) }()

	// Closed before the locks and the stores, after the last request was answered.
	gate, err := openAdmission(ctx, cfg, stores, lockers, registry, tracing, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gate.close()) }()

	tokens, err := auth.NewTokens(cfg.secret(), time.Now)
	if err != nil {
		return fmt.Errorf("SECKILL_JWT_SECRET: %w", err)
	}
	vouchers := preparing{admitting: gate, Service: &voucher.Service{
		Store: db.Vouchers(), IDs: ids, Lockers: lockers, Admission: true, Lab: cfg.Lab, Now: time.Now,
	}}
	orders, err := order.NewService(order.Config{
		Store: rec.store(db.Orders()), Vouchers: voucher.NewCache(db.Vouchers(), 0, time.Now),
		IDs: ids, Lockers: lockers, Gate: tracing.Gate(gate), Now: time.Now, Log: log, Lab: cfg.Lab,
	})
	if err != nil {
		return err
	}
	api, err := httpapi.New(
		httpapi.Config{Lab: cfg.Lab, AdminToken: cfg.AdminToken, DebugListener: cfg.DebugAddr != ""},
		httpapi.Deps{
			Orders: rec.orders(orders), Vouchers: vouchers, Idempotency: db.Idempotency(), IDs: ids, Tokens: tokens, Lockers: lockers,
			Ready: []httpapi.Check{
				{Name: "database", Ask: db.Ping},
				{Name: "redis", Ask: func(ctx context.Context) error { return stores.redis.Ping(ctx).Err() }},
				{Name: "ids", Ask: ids.ready},
			},
			Limit: gate.limit, Log: log, Registerer: registry, Gatherer: registry, Now: time.Now,
		})
	if err != nil {
		return err
	}
	return serve(ctx, cfg, api, tracing.Handler(api.Public()), log,
		func(ctx context.Context, url string) error { return greet(ctx, out, cfg, vouchers.Service, url) },
		func(ctx context.Context, _ string) error { return sweep(ctx, db.Idempotency(), log) })
}

// startLog begins the log, which is buffered. What it returns writes the rest of it.
func startLog(ctx context.Context, cfg config, logs io.Writer) (*slog.Logger, func() error) {
	lines := httpapi.NewLogWriter(logs)
	log := slog.New(slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: cfg.LogLevel}))
	cfg.warn(log)
	logging, end := context.WithCancel(context.WithoutCancel(ctx))
	var buffering errgroup.Group
	buffering.Go(func() error { return lines.Run(logging) })
	return log, func() error {
		end()
		return buffering.Wait()
	}
}

// lastTraces bounds how long a stop waits for the last spans to be sent.
const lastTraces = 3 * time.Second

func closeTracing(ctx context.Context, tracing *telemetry.Tracing) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
	defer cancel()
	tracing.Close(ctx)
}

// serve listens and serves the API by its handler until ctx ends; then it stops taking requests and
// finishes those it has. Beside the serving it runs the work given, which is told
// the service's URL and ends with its context.
func serve(ctx context.Context, cfg config, api *httpapi.API, handler http.Handler, log *slog.Logger, beside ...func(ctx context.Context, url string) error) error {
	public, err := listen(ctx, "SECKILL_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	servers := []*http.Server{httpapi.NewServer(handler, log)}
	listeners := []net.Listener{public}
	if cfg.DebugAddr != "" {
		debug, err := listen(ctx, "SECKILL_DEBUG_ADDR", cfg.DebugAddr)
		if err != nil {
			return errors.Join(err, public.Close())
		}
		servers, listeners = append(servers, httpapi.NewServer(api.Debug(), log)), append(listeners, debug)
	}

	serving, ctx := errgroup.WithContext(ctx)
	for i, server := range servers {
		serving.Go(func() error {
			if err := server.Serve(listeners[i]); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("serve %s: %w", listeners[i].Addr(), err)
			}
			return nil
		})
	}
	serving.Go(func() error {
		<-ctx.Done()
		api.Drain()
		log.Info("stopping", "finish_within", finishTimeout.String())
		finishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
		defer cancel()
		var failed []error
		for _, server := range servers {
			if err := server.Shutdown(finishing); err != nil {
				failed = append(failed, fmt.Errorf("requests were cut off after %v: %w", finishTimeout, err), server.Close())
			}
		}
		return errors.Join(failed...)
	})
	for _, work := range beside {
		serving.Go(func() error { return work(ctx, "http://"+public.Addr().String()) })
	}
	return serving.Wait()
}

func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %s: %w", setting, addr, err)
	}
	return l, nil
}
