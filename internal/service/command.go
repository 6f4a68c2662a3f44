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

	"seckill/internal/buildinfo"
	"seckill/internal/gctune"
)

// Command is the program api: it parses the arguments, runs what they ask for until it ends or is interrupted, and
// returns the exit code: 2 for an invalid setting, 1 for a failure, 0 for a clean stop.
func Command(args, environ []string) int {
	gctune.Apply()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal, a second one has its usual effect: Ctrl-C twice ends a stop that hangs.
	context.AfterFunc(ctx, stop)

	do := Run
	parse := ParseConfig
	switch {
	case asksVersion(args):
		fmt.Println(buildinfo.Read().Line("api"))
		return 0
	case len(args) > 0 && args[0] == "healthcheck":
		do, args = healthcheck, args[1:]
	case len(args) > 0 && args[0] == "reconcile":
		var asked reconcileCommand
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
		fmt.Fprintln(os.Stderr, "api: "+err.Error())
		return 2
	}
	err = do(ctx, cfg, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, "api: "+err.Error())
		return 2
	case err != nil && !stopped(ctx, err):
		fmt.Fprintln(os.Stderr, "api: "+err.Error())
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
