package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"seckill/internal/httpapi"
	"seckill/internal/httpserver"
)

// serve listens and serves the API until ctx ends, and then stops; see [shutdown]. Meanwhile it runs the given
// background work, which gets the URL of the service and ends with its context. That goes on as long as requests are
// served: for instance, somebody has to watch whether Redis evicts keys.
func serve(ctx context.Context, cfg Config, api *httpapi.API, handler http.Handler, log *slog.Logger, background ...func(ctx context.Context, url string) error) error {
	public, err := listen(ctx, "SECKILL_ADDR", cfg.Addr)
	if err != nil {
		return err
	}
	config := httpserver.Config{Log: log, IdleTimeout: cfg.IdleTimeout, AnswerTimeout: answerTimeout}
	servers := []*httpserver.Server{httpserver.New(api.LimitConnections(config), handler, public)}
	if cfg.DebugAddr != "" {
		addr, err := cfg.debugAddr()
		if err != nil {
			return errors.Join(err, public.Close())
		}
		debug, err := listen(ctx, "SECKILL_DEBUG_ADDR", addr)
		if err != nil {
			return errors.Join(err, public.Close())
		}
		servers = append(servers, httpserver.New(config, api.Debug(), debug))
	}

	stopRequested := ctx
	working, endWork := context.WithCancel(context.WithoutCancel(ctx))
	serving, ctx := errgroup.WithContext(ctx)
	for _, server := range servers {
		serving.Go(func() error {
			if err := server.Serve(); err != nil {
				return fmt.Errorf("serve: %w", err)
			}
			return nil
		})
	}
	serving.Go(func() error {
		<-ctx.Done()
		delay := cfg.ShutdownDelay
		if stopRequested.Err() == nil { // a server failed: there are no requests to wait for
			delay = 0
		}
		var stopping []stopper
		for _, server := range servers {
			stopping = append(stopping, server)
		}
		return shutdown(context.WithoutCancel(ctx), delay, cfg.ShutdownTimeout, api, stopping, endWork, log)
	})
	for _, work := range background {
		serving.Go(func() error { return work(working, urlOf(public.Addr())) })
	}
	return serving.Wait()
}

// answerTimeout is how long requests may take to answer after their contexts were cancelled. What was sent already goes
// on: a commit with its wait for the row (8 s while the database hangs), then the query for the outcome of the order (2
// s), then the release of the lock (3 s).
const answerTimeout = 14 * time.Second

// drainer is what [httpapi.API] does about a stop, stopper what [httpserver.Server] does.
type (
	drainer interface {
		Drain()
		EndWaits()
	}
	stopper interface {
		Drain()
		Stop(ctx context.Context) error
	}
)

// shutdown stops in steps, so that no request from a load balancer fails:
//
//	at once    /readyz fails; requests are still answered, with Connection: close
//	delay      no new connection is accepted; requests that wait for an order are answered
//	+ timeout  requests that still run are cancelled, and answered with 503
//	+ 14 s     connections that are still open are closed
//
// The first server is the public one. Health and metrics are served until it has stopped. endWork is called when its
// requests have finished or are about to be cancelled.
func shutdown(ctx context.Context, delay, finish time.Duration, api drainer, servers []stopper, endWork func(), log *slog.Logger) error {
	api.Drain()
	for _, server := range servers {
		server.Drain()
	}
	if delay > 0 {
		log.Info("not ready; still serving", "for", delay.String())
		time.Sleep(delay)
	}
	api.EndWaits()
	log.Info("stopping", "finish_within", finish.String())
	var failed error
	for i, server := range servers {
		timeout := finish
		if i > 0 { // nobody waits for a running profile
			timeout = 0
		}
		finishing, cancel := context.WithTimeout(ctx, timeout)
		context.AfterFunc(finishing, endWork)
		if err := server.Stop(finishing); err != nil && i == 0 {
			failed = fmt.Errorf("requests were cut off after %v: %w", timeout, err)
		}
		cancel()
	}
	return failed
}

// urlOf returns a URL of a listener that a browser on this machine can open.
func urlOf(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost" // [::] and 0.0.0.0 are every address, and none that can be opened
	}
	return "http://" + net.JoinHostPort(host, port)
}

func listen(ctx context.Context, setting, addr string) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot listen on %s: %w", setting, addr, err)
	}
	return l, nil
}
