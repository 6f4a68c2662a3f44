package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
)

func exploreHelp(w io.Writer) {
	d := explore.DefaultBudget()
	fmt.Fprintf(w, `lab explore runs the code of a lock under every schedule within a budget, and
prints the shortest one that breaks it. It needs no server: time is virtual.

usage: lab explore LOCK [flags]
       lab explore all [flags]
       lab explore ./FOLDER [flags]    a lock in Go, as lab new-lock writes it

LOCK keeps its locks in Redis:
%s.
A schedule says which request reaches the server next, and which reply its
process; when time goes on, and what fails. Bad luck is counted in adversities:

`, wrap(strings.Join(explorable(), ", "), narrow))
	for _, a := range explore.Adversities() {
		fmt.Fprintf(w, "  --%-14s %s (default %d)\n", a.String()+" N", adversityHelp[a], d[a])
	}
	fmt.Fprint(w, `  --most N         of all kinds together in one schedule (default 3)
  --buyers N       processes that want the lock, 1 to 4 (default 2)
  --for DURATION   stop the search after it, for each lock (default 1m)
  --sample N       schedules to sample if the search did not come to its end;
                   0: none (default 1000)
  --seed N         other numbers sample other schedules (default 1)
  --json           one object per lock on standard output, nothing else

With all, each lock has a budget that ends within a minute on two cores, unless
a flag says otherwise: the more messages a lock has, the smaller it is. The
table says which. With three servers (multi, red) a buyer tries once.

The search goes by the amount of bad luck, then by the number of steps: what it
finds first is the shortest. What is sampled has adversities at random steps; a
failure is shrunk, and there may be a shorter one. Two runs to the end, or with
the same sample, find the same. Progress goes to standard error. Exit code: 0
when the search is over or its time is, also where it found something; 1 when it
failed or was interrupted; 2 for wrong usage.
`)
}

var adversityHelp = map[explore.Adversity]string{
	explore.Preemption: "a message or a holder's work is held back",
	explore.Expiry:     "time goes on past the end of a key",
	explore.Pausing:    "a process stops for a while",
	explore.Killing:    "a process dies",
	explore.Cutting:    "a connection breaks, and loses what is under way",
	explore.Restarting: "a server restarts without its data",
	explore.Jumping:    "a server's clock jumps forward by a lease",
}

// explorable are the locks of the catalogue that can be explored.
func explorable() []string {
	var all []string
	for _, m := range lock.Catalogue() {
		if m.Store == lock.InRedis || m.Store == lock.InNodes {
			all = append(all, m.Name)
		}
	}
	return all
}

// exploreRequest is a parsed call of lab explore.
type exploreRequest struct {
	locks  []string
	config explore.Config
	json   bool
	own    bool // each lock has a budget of its own
}

func parseExplore(args []string) (r exploreRequest, err error) {
	flags := flag.NewFlagSet("explore", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	budget := explore.DefaultBudget()
	for _, a := range explore.Adversities() {
		flags.IntVar(&budget[a], a.String(), budget[a], "")
	}
	flags.IntVar(&r.config.Most, "most", 3, "")
	flags.IntVar(&r.config.Buyers, "buyers", 2, "")
	flags.DurationVar(&r.config.For, "for", 0, "")
	flags.IntVar(&r.config.Sample, "sample", 1000, "")
	flags.Uint64Var(&r.config.Seed, "seed", 1, "")
	flags.BoolVar(&r.json, "json", false, "")
	rest, err := parseAnywhere(flags, args)
	switch {
	case err != nil:
		return r, err
	case len(rest) != 1:
		return r, usagef("one lock, or all: %s", strings.Join(explorable(), ", "))
	case r.config.Buyers < 1 || r.config.Buyers > explore.MaxBuyers:
		return r, usagef("--buyers %d; 1 to %d", r.config.Buyers, explore.MaxBuyers)
	case r.config.Most < 0 || r.config.For < 0 || r.config.Sample < 0:
		return r, usagef("--most, --for and --sample are not negative")
	}
	for _, a := range explore.Adversities() {
		if budget[a] < 0 {
			return r, usagef("--%v %d is negative", a, budget[a])
		}
	}
	r.config.Budget = budget
	if r.locks = rest; rest[0] == "all" {
		r.locks, r.own = explorable(), true
		flags.Visit(func(f *flag.Flag) {
			r.own = r.own && slices.Contains([]string{"json", "for", "sample", "seed"}, f.Name)
		})
	}
	r.config.For = cmp.Or(r.config.For, time.Minute)
	return r, nil
}

// within bounds what of a lock is tried: what ends within a minute on two cores.
func within(c *explore.Config, lockName string) {
	m, err := lock.Lookup(lockName)
	switch {
	case err != nil:
		return // the search will say so
	case m.Store == lock.InNodes:
		c.Budget, c.Most = explore.DefaultBudget(), 1
		c.Budget[explore.Preemption], c.Budget[explore.Restarting] = 0, 1
	case m.Ends == lock.EndsUnlessRenewed:
		c.Budget, c.Most = explore.DefaultBudget(), 1
	default:
		c.Budget, c.Most = explore.Budget{explore.Preemption: 2, explore.Expiry: 1, explore.Killing: 1}, 3
	}
}

func exploreLocks(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	req, err := parseExplore(args)
	if err != nil {
		return err
	}
	p := &progress{w: stderr, total: 1, interactive: interactive(stderr)}
	if strings.ContainsRune(req.locks[0], filepath.Separator) {
		return exploreOwn(ctx, req, p, stdout)
	}
	heading := ""
	for _, name := range req.locks {
		c := req.config
		c.Lock = name
		if req.own {
			within(&c, name)
		}
		c.Progress = func(at explore.Progress) {
			if at.Sampled > 0 {
				p.note(fmt.Sprintf("%s: %s of %s schedules sampled", name, thousands(at.Sampled), thousands(c.Sample)))
				return
			}
			p.note(fmt.Sprintf("%s: schedules with %s, %s tried, %s waiting", name, counted(at.Level, "adversity", "adversities"), thousands(at.Executions), thousands(at.Waiting)))
		}
		r, err := explore.Run(ctx, c)
		p.clear()
		if errors.Is(err, lock.ErrUnknown) || errors.Is(err, explore.ErrUnsupported) {
			return usagef("%v", err)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		switch {
		case req.json:
			if err := json.NewEncoder(stdout).Encode(r); err != nil {
				return err
			}
		case len(req.locks) > 1:
			if now := fmt.Sprintf("at most %s of %s:", counted(c.Most, "adversity", "adversities"), c.Budget); now != heading {
				heading = now
				fmt.Fprintf(stdout, "\n%s\n%-15s %-9s %10s %8s  %s\n", heading, "lock", "covered", "executions", "per s", "the shortest schedule of each anomaly, in steps (adversities)")
			}
			printRow(stdout, r, c.Most)
		default:
			if err := printExplored(ctx, stdout, r); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// exploreOwn builds a lock in Go, as lab judge does, and lets its program explore it.
func exploreOwn(ctx context.Context, req exploreRequest, p *progress, stdout io.Writer) error {
	p.say("building " + req.locks[0])
	command, remove, err := lockjudge.Build(ctx, req.locks[0])
	if err != nil {
		return err
	}
	defer remove()
	p.say("exploring")
	found, err := lockjudge.Explore(ctx, command, lockjudge.Exploration{
		Name: filepath.Base(req.locks[0]), Buyers: req.config.Buyers, Budget: req.config.Budget, Most: req.config.Most, For: req.config.For,
		Sample: req.config.Sample, Seed: req.config.Seed,
	})
	p.clear()
	switch {
	case err != nil:
		return err
	case req.json:
		return json.NewEncoder(stdout).Encode(found.Result)
	}
	printFound(stdout, found.Result)
	for i, says := range found.Told {
		fmt.Fprintf(stdout, "%3d  %-6s %s\n", i+1, found.Result.Found[0].Schedule.Steps[i], says)
	}
	return nil
}

func replayHelp(w io.Writer) {
	fmt.Fprint(w, `lab replay plays a schedule that lab explore has found, step by step, in virtual
time, and draws it.

usage: lab replay SCHEDULE [flags]

SCHEDULE is LOCK~BUYERS~STEPS, such as lua~2~s1-q1-r1-s2-q2-r2-w1-q1-r1:
  s1  buyer 1 comes             q1  its request reaches the server
  r1  the reply reaches it      w1  it writes, and begins to release
  t   time goes on              z1, g1  its process pauses, and goes on
  k1  its process dies          x1.2  its second connection breaks
  e1  server 1 restarts empty   j1  its clock jumps
Without a connection's number a request or reply is the oldest one.

  --server  play it on a real redis-server, too, in real time, and compare what
            was found; not for red and multi, nor with a jump of a clock
  --json    the steps, what was found, and what could come next, as one object

Exit code: 0 when every step was possible, 1 when not, or when a redis-server
came to something else, 2 for wrong usage.
`)
}

func replay(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	asJSON := flags.Bool("json", false, "")
	onServer := flags.Bool("server", false, "")
	rest, err := parseAnywhere(flags, args)
	switch {
	case err != nil:
		return err
	case len(rest) != 1:
		return usagef("one schedule")
	}
	s, err := explore.ParseSchedule(rest[0])
	if err != nil {
		return usagef("%v", err)
	}
	p, err := explore.Play(ctx, explore.Config{Budget: explore.DefaultBudget()}, s)
	if err != nil {
		return err
	}
	if *onServer {
		return replayOnServer(ctx, p, *asJSON, stdout, stderr)
	}
	if *asJSON {
		return json.NewEncoder(stdout).Encode(p)
	}
	return printPlayed(stdout, p)
}

// compared is what a schedule came to in virtual time, and on a redis-server.
type compared struct {
	Engine  string         `json:"engine"`
	Virtual explore.Played `json:"virtual"`
	Server  explore.Played `json:"server"`
	Same    bool           `json:"same"`
}

// errDiffers means that a redis-server came to something else than the bubble of virtual time.
var errDiffers = errors.New("the redis-server came to something else")

// replayOnServer plays a schedule on redis-servers, and compares what was found.
func replayOnServer(ctx context.Context, virtual explore.Played, asJSON bool, stdout, stderr io.Writer) (err error) {
	p := &progress{w: stderr, interactive: interactive(stderr)}
	options := testbed.Defaults()
	options.Progress = func(what i18n.Text) { p.note(what.String()) }
	env, err := testbed.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		p.clear()
		err = errors.Join(err, env.Close())
	}()
	c := compared{Virtual: virtual}
	var failed error
	skipped, err := env.WithRig(ctx, "replay", []testbed.Server{testbed.RedisServer}, func(r *testbed.Rig) {
		addr := r.OwnRedis().Addr()
		c.Engine = r.Engine().Redis
		p.note("on " + c.Engine + ", in real time")
		c.Server, failed = explore.PlayOn(r.Context(), explore.Config{}, virtual.Schedule, addr)
	})
	p.clear()
	switch err = errors.Join(err, failed); {
	case err != nil:
		return err
	case !skipped.IsZero():
		return fmt.Errorf("--server: %s", skipped)
	}
	c.Same = slices.Equal(c.Virtual.Found, c.Server.Found)
	if asJSON {
		err = json.NewEncoder(stdout).Encode(c)
	} else if err = printPlayed(stdout, c.Server); err == nil {
		fmt.Fprintf(stdout, "\nIn virtual time: %s\nOn %s: %s\n", foundIn(c.Virtual), c.Engine, foundIn(c.Server))
	}
	switch {
	case err != nil:
		return err
	case !c.Same:
		return errDiffers
	case !asJSON:
		fmt.Fprintln(stdout, "The same.")
	}
	return nil
}

// foundIn lists what a run has shown.
func foundIn(p explore.Played) string {
	var all []string
	for _, f := range p.Found {
		all = append(all, fmt.Sprintf("%s, certain after step %d", explore.Title(f.Kind), f.Step))
	}
	return cmp.Or(strings.Join(all, "; "), "nothing is wrong")
}

// printPlayed tells a schedule step by step, and draws what it shows.
func printPlayed(w io.Writer, p explore.Played) error {
	for i, one := range p.Steps {
		fmt.Fprintf(w, "%3d  %-6s %s\n", i+1, one.Step, one.Says)
	}
	fmt.Fprintln(w)
	drawn := p.Picture
	if len(p.Proofs) > 0 {
		drawn = &p.Proofs[0]
	}
	if drawn != nil {
		if err := report.Lanes(w, *drawn, width(w), colour(w), i18n.English); err != nil {
			return err
		}
		fmt.Fprintln(w, wrap("Each step is drawn 100 ms longer than it took.", width(w)))
	}
	for _, f := range p.Found {
		fmt.Fprintf(w, "%s, certain after step %d.\n", i18n.Sentence(i18n.Plain(explore.Title(f.Kind))), f.Step)
	}
	if len(p.Found) == 0 {
		fmt.Fprintln(w, "Nothing is wrong so far.")
	}
	fmt.Fprintf(w, "\nAgain: lab replay '%s'\n", p.Schedule)
	return nil
}

// counted is a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// thousands is a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
