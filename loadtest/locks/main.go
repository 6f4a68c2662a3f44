// Command locks compares this project's Redis locks with the best-known Go libraries, all on one redis-server in one
// run, and prints one Markdown table.
//
// Every subject runs every scenario once per round. The rounds follow each other, so that other load on the machine
// affects all subjects alike. The table shows medians over the rounds and, in brackets, the minimum and the maximum.
//
// It is a module of its own, so that the libraries it compares with do not enter the go.mod of the project.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// Exit codes, beyond 0.
const (
	exitFailed      = 1 // something did not work, or a lock had two holders
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options are the command line options.
type options struct {
	duration time.Duration
	warmUp   time.Duration
	rounds   int
	only     *regexp.Regexp
	json     bool
	redis    string
}

func run(ctx context.Context, args []string, out, progress io.Writer) int {
	opts, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return exitUsage
	}
	err = measureAll(ctx, opts, out, progress)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(progress, "interrupted")
		return exitInterrupted
	case err != nil:
		fmt.Fprintln(progress, "locks:", err)
		return exitFailed
	}
	return 0
}

// parse reports errors on w itself.
func parse(args []string, w io.Writer) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("locks", flag.ContinueOnError)
	flags.SetOutput(w)
	flags.DurationVar(&o.duration, "duration", 3*time.Second, "how long each measurement takes, after its warm-up")
	flags.IntVar(&o.rounds, "rounds", 5, "how often everything is measured; commands are counted in one further, shorter round")
	flags.StringVar(&only, "only", "", "measure only what this regular expression matches in \"scenario/subject\"")
	flags.BoolVar(&o.json, "json", false, "print JSON, with every round, instead of the table")
	flags.StringVar(&o.redis, "redis", "", "address of a server to use, at best an idle one of version 7.0.5 or newer; the default is to start one")
	flags.Usage = func() {
		fmt.Fprintln(w, "Usage: go run . [flags]\n\nMeasures Redis locks beside each other and prints a Markdown table. Progress goes to stderr.\n\nFlags:")
		flags.PrintDefaults()
		fmt.Fprintln(w, "\nScenarios:")
		for _, s := range scenarios() {
			fmt.Fprintf(w, "  %-16s %s\n", s.name, s.says)
		}
		fmt.Fprintln(w, "\nSubjects:")
		for _, s := range subjects() {
			fmt.Fprintf(w, "  %-30s %s\n", s.name, s.says)
		}
		fmt.Fprintln(w, "\nExit codes: 0 measured, 1 failed or a lock had two holders, 2 wrong flags, 130 interrupted (what was measured is printed).")
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	o.only, err = regexp.Compile(only)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.duration < 10*time.Millisecond || o.duration > 10*time.Minute:
		err = errors.New("-duration must be 10ms to 10m")
	case o.rounds < 1 || o.rounds > 100:
		err = errors.New("-rounds must be 1 to 100")
	}
	if err != nil {
		fmt.Fprintln(w, "locks:", err)
	}
	o.warmUp = min(o.duration/4, time.Second)
	return o, err
}

// measureAll fills the rows round by round and prints them, even if it is interrupted and some rounds are missing.
func measureAll(ctx context.Context, o options, out, progress io.Writer) (err error) {
	rows := rowsFor(o.only)
	if len(rows) == 0 {
		return fmt.Errorf("nothing matches -only %q", o.only)
	}
	addr := o.redis
	if addr == "" {
		server, err := startServer(ctx)
		if err != nil {
			return err
		}
		defer server.stop()
		addr = server.addr
	}
	b, err := newBench(ctx, addr)
	if err != nil {
		return err
	}
	defer b.close()
	countFor := min(o.duration, time.Second)
	total := time.Duration(len(rows)) * (time.Duration(o.rounds)*(o.warmUp+o.duration) + o.warmUp + countFor)
	fmt.Fprintf(progress, "%s at %s; %d measurements of %v, about %v in all\n",
		b.version, addr, len(rows)*o.rounds, o.duration, total.Round(time.Second))
	err = rounds(ctx, b, o, countFor, rows, progress)
	if printErr := report(out, o, b.version, rows); err == nil {
		err = printErr
	}
	if n := violations(rows); err == nil && n > 0 {
		err = fmt.Errorf("a lock had two holders %d times; see the table", n)
	}
	return err
}

// rounds measures, the counting round last. Each round begins with another subject. A measurement that fails is missing
// in its row; the others continue.
func rounds(ctx context.Context, b *bench, o options, countFor time.Duration, rows []*row, progress io.Writer) error {
	var failed []error
	for round := range o.rounds + 1 {
		counting, duration, name := round == o.rounds, o.duration, fmt.Sprintf("round %d/%d", round+1, o.rounds)
		if counting {
			duration, name = countFor, "counting commands"
		}
		for _, r := range rotated(rows, round) {
			m, err := b.measure(ctx, r.scenario, r.subject, o.warmUp, duration, counting)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				err = fmt.Errorf("%s  %s/%s: %w", name, r.scenario.name, r.subject.name, err)
				fmt.Fprintln(progress, err)
				failed = append(failed, err)
				if b.stats.Ping(ctx).Err() != nil {
					return errors.Join(failed...) // without a server nothing goes on
				}
				continue
			}
			if counting {
				r.counted = m
			} else {
				r.rounds = append(r.rounds, *m)
			}
			fmt.Fprintf(progress, "%s  %s/%s: %s\n", name, r.scenario.name, r.subject.name, m)
		}
	}
	return errors.Join(failed...)
}

// rotated makes another subject the first in every round, within each scenario.
func rotated(rows []*row, by int) []*row {
	var all []*row
	for begin := 0; begin < len(rows); {
		end := begin
		for end < len(rows) && rows[end].scenario.name == rows[begin].scenario.name {
			end++
		}
		group := rows[begin:end]
		first := by % len(group)
		all = append(append(all, group[first:]...), group[:first]...)
		begin = end
	}
	return all
}
