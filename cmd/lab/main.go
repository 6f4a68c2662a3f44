// Command lab is the laboratory: it reproduces the failures of locks, on real servers and under load, and has tools for
// load tests.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9/logging"

	"seckill/internal/buildinfo"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	lockclient.MainIfChild() // this program again, as a lock client of an experiment
	testbed.MainIfRedis()    // or as its Redis server
	testkit.MainIfReaper()   // or as what cleans up after it, where there is no shell
	logging.Disable()        // go-redis tells of each server that is gone, which is what happens here
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is a subcommand of lab. Its run returns errHelp if help was asked for, and a [usageError] for a wrong call.
type command struct {
	name, summary string
	help          func(w io.Writer)
	run           func(ctx context.Context, args []string, stdout, stderr io.Writer) error
}

func commands() []command {
	return []command{
		{name: "list", summary: "name the experiments", help: listHelp, run: list},
		{name: "show", summary: "describe an experiment, and what of it can be changed", help: showHelp, run: show},
		{name: "run", summary: "run experiments, and say whether they came out as expected", help: runHelp, run: runExperiments},
		{name: "serve", summary: "the laboratory as a page: choose, predict, run, see why", help: serveHelp, run: serve},
		{name: "sweep", summary: "run an experiment with several values of a number", help: sweepHelp, run: sweep},
		{name: "course", summary: "a course that checks itself: how far you are, and the next task", help: courseHelp, run: runCourse},
		{name: "check", summary: "do a task of the course", help: checkHelp, run: check},
		{name: "hint", summary: "help with a lesson of the course, in three steps", help: hintHelp, run: hint},
		{name: "verify", summary: "check the answers of a certificate of the course again", help: verifyHelp, run: verifyCertificate},
		{name: "new-lock", summary: "write a lock with a mistake to find", help: newLockHelp, run: newLock},
		{name: "judge", summary: "say which behaviours of a lock break, and sell under it twice", help: judgeHelp, run: judge},
		{name: "explore", summary: "try every schedule of a lock, and print the shortest that breaks it", help: exploreHelp, run: exploreLocks},
		{name: "replay", summary: "play such a schedule, step by step", help: replayHelp, run: replay},
		{name: "catalogue", summary: "print the failure catalogue, made from the experiments", help: catalogueHelp, run: writeCatalogue},
		{name: "tokens", summary: "make the buyers' tokens and targets for k6, vegeta and wrk", help: tokensHelp, run: tokens},
		{name: "version", summary: "print the version, the commit and the Go that built it", help: versionHelp, run: printVersion},
	}
}

// run runs the subcommand, or runs a first experiment if there is none, and turns its error into an exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		if err := welcome(ctx, stdout, stderr); err != nil {
			fmt.Fprintf(stderr, "lab: %v\n", err)
			return exitFailed
		}
		return exitOK
	}
	name, rest := args[0], args[1:]
	if name == "help" || name == "-h" || name == "-help" || name == "--help" {
		return helpAbout(rest, stdout, stderr)
	}
	if name == "-version" || name == "--version" {
		name = "version"
	}
	c, ok := find(name)
	if !ok {
		return unknown(name, stderr)
	}
	err := c.run(ctx, rest, stdout, stderr)
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errHelp):
		c.help(stdout)
		return exitOK
	}
	fmt.Fprintf(stderr, "lab %s: %v\n", c.name, err)
	if _, wrong := errors.AsType[usageError](err); wrong {
		fmt.Fprintf(stderr, "Run 'lab help %s' for how to call it.\n", c.name)
		return exitUsage
	}
	return exitFailed
}

func help(w io.Writer) {
	fmt.Fprint(w, "lab brings about the failures of locks around a flash sale, and shows why.\n\nusage: lab COMMAND [flags]\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-10s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "  help       say more about a command\n\nWithout a command it runs a first experiment.\n")
}

func helpAbout(args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		help(stdout)
		return exitOK
	}
	c, ok := find(args[0])
	if !ok {
		return unknown(args[0], stderr)
	}
	c.help(stdout)
	return exitOK
}

func unknown(name string, stderr io.Writer) int {
	fmt.Fprintf(stderr, "lab: there is no command %q\n\n", name)
	help(stderr)
	return exitUsage
}

func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

// errHelp means that help was asked for, which is no failure.
var errHelp = errors.New("help")

// usageError is a call that makes no sense.
type usageError struct{ reason string }

func (e usageError) Error() string { return e.reason }

func usagef(format string, args ...any) error {
	return usageError{reason: fmt.Sprintf(format, args...)}
}

func versionHelp(w io.Writer) {
	fmt.Fprint(w, "lab version prints the version, the commit and the Go that built it.\n\nusage: lab version\n")
}

func printVersion(_ context.Context, args []string, stdout, _ io.Writer) error {
	switch {
	case len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help"):
		return errHelp
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	}
	_, err := fmt.Fprintln(stdout, buildinfo.Read().Line("lab"))
	return err
}
