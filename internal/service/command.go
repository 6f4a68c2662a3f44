package service

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"seckill/internal/buildinfo"
	"seckill/internal/gctune"
)

// Command is the program api: it parses the arguments, runs what they ask for until it ends or is interrupted, and
// returns the exit code: 2 for an invalid setting, 1 for a failure, 0 for a clean stop.
func Command(args, environ []string) int {
	gctune.Apply()
	signal.Ignore(syscall.SIGPIPE) // a log whose reader has gone ends nothing
	logging.Disable()              // go-redis' own, of dials and failovers: errors and metrics report them
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// After the first signal, a second one has its usual effect: Ctrl-C twice ends a stop that hangs.
	context.AfterFunc(ctx, stop)

	do := Run
	parse := ParseConfig
	switch {
	case asksVersion(args):
		fmt.Println(buildinfo.Read().Line("api"))
		return 0
	case len(args) > 0 && args[0] == "draw":
		if err := draw(args[1:], os.Stdout); err != nil {
			complain(err)
			return 2
		}
		return 0
	case len(args) > 0 && args[0] == "healthcheck":
		do, args = healthcheck, args[1:]
	case len(args) > 0 && args[0] == "reconcile":
		var asked reconcileCommand
		do, parse, args = asked.run, asked.parse, args[1:]
	case len(args) > 0 && args[0] == "adopt":
		var asked adoptCommand
		do, parse, args = asked.run, asked.parse, args[1:]
	case len(args) > 0 && args[0] == "payment-sandbox":
		var asked sandboxCommand
		do, parse, args = asked.run, asked.parse, args[1:]
	}
	cfg, err := parse(args, environ, os.Stdout)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		complain(err)
		return 2
	}
	defer context.AfterFunc(ctx, func() { exitAfter(cfg.stopLimit()) })()
	err = do(ctx, cfg, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		complain(err)
		return 2
	case err != nil && !stopped(ctx, err):
		complain(err)
		return 1
	}
	return 0
}

// asksVersion reports whether the only argument asks for the version.
func asksVersion(args []string) bool {
	return len(args) == 1 && slices.Contains([]string{"-version", "--version", "version"}, args[0])
}

// stopped reports whether an error only means that the start was interrupted.
func stopped(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Canceled)
}

// exitAfter ends the program when a stop takes longer than its steps may take together: something hangs that has no
// limit of its own.
func exitAfter(limit time.Duration) {
	time.Sleep(limit)
	complain(fmt.Errorf("the stop did not end within %v", limit))
	os.Exit(1)
}
