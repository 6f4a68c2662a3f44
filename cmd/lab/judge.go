package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/lockjudge/template"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
)

func judgeHelp(w io.Writer) {
	fmt.Fprint(w, `lab judge says which behaviours of a lock break, the gravest first, each with
what happened just before. It does not ask what the lock promises. First it
tries the schedules of a lock in Go in virtual time, as lab explore does, for
20 s at most. At last it sells a voucher under the lock twice, once with a buyer
who takes longer than the lease, and draws it.

usage: lab judge [flags] FOLDER          a lock in Go, as lab new-lock writes it
       lab judge [flags] -- COMMAND ...  a lock in another language

  --json         one object on standard output, nothing else
  --report DIR   write DIR/index.html, one file that needs no other

The lock runs in processes of its own, which are killed and cut off from their
server. Such a process reads requests from its standard input and writes answers
to its standard output, one JSON object per line: internal/lab/lockjudge/wire
has the protocol, examples/locks has locks that speak it. The server is a
redis-server, or one inside this process where none is installed.

A comfort is what a lock can do without, as re-entry.

Exit code: 0 when nothing broke or only comforts are missing, 1 when another
behaviour or one of the two sales broke, or the lock could not be judged, 2 for
wrong usage.
`)
}

func newLockHelp(w io.Writer) {
	fmt.Fprint(w, `lab new-lock writes a lock to learn with, in a new folder of this repository. It
has one mistake, for lab judge to find and for you to mend.

usage: lab new-lock NAME           small letters and digits
`)
}

// isHelp reports whether a call asks for help.
func isHelp(args []string) bool {
	return len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help")
}

// judge builds a lock, if it is in Go, and judges it.
func judge(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	req, err := parseJudge(args)
	if err != nil {
		return err
	}
	p := &progress{w: stderr, total: 1, interactive: interactive(stderr)}
	options := testbed.Defaults()
	options.Progress = func(what i18n.Text) { p.note(what.String()) }
	options.Notice = func(what i18n.Text) { p.say(what.String()) }
	env, err := testbed.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		p.clear()
		err = errors.Join(err, env.Close())
	}()
	command := req.command
	if command == nil {
		var remove func()
		if command, remove, err = build(ctx, req.folder, p); err != nil {
			return err
		}
		defer remove()
	}
	var judged judgedLock
	var explored *explore.Result
	if req.command == nil {
		if explored, err = exploreFirst(ctx, req.name, command, p); err != nil {
			return err
		}
	}
	_, err = env.WithRig(ctx, "judge", nil, func(r *testbed.Rig) { judged = judgeLock(r, command, p) })
	judged.explored = explored
	p.clear()
	if err = errors.Join(err, judged.err); err != nil {
		return err
	}
	return judged.print(req, stdout, stderr)
}

// judgeRequest is a parsed call of lab judge.
type judgeRequest struct {
	name    string
	folder  string   // of a lock in Go
	command []string // of another one
	json    bool
	report  string
}

func parseJudge(args []string) (judgeRequest, error) {
	var req judgeRequest
	flags := newFlags("judge")
	flags.BoolVar(&req.json, "json", false, "")
	flags.StringVar(&req.report, "report", "", "")
	own := args
	dash := slices.Index(args, "--")
	if dash >= 0 {
		own, req.command = args[:dash], args[dash+1:]
	}
	rest, err := parseAnywhere(flags, own)
	switch {
	case err != nil:
		return req, err
	case dash >= 0 && len(req.command) == 0:
		return req, usagef("after -- there is no command")
	case dash >= 0 && len(rest) > 0:
		return req, usagef("which lock? the folder %q, or the command after --", rest[0])
	case dash < 0 && len(rest) == 0:
		return req, usagef("which lock? a folder, or -- and a command")
	case len(rest) > 1:
		return req, usagef("unexpected argument %q; a command comes after --", rest[1])
	}
	if dash >= 0 {
		req.name = strings.Join(req.command, " ")
	} else {
		req.folder, req.name = rest[0], filepath.Base(rest[0])
	}
	if req.report != "" { // fail now and not after the judgement
		if err := writable(req.report); err != nil {
			return req, usagef("--report: %v", err)
		}
	}
	return req, nil
}

// exploreFirst tries a lock's schedules in virtual time, for a while: those in which messages or work are late, and a lease
// ends.
func exploreFirst(ctx context.Context, name string, command []string, p *progress) (*explore.Result, error) {
	p.say("trying its schedules in virtual time")
	var budget explore.Budget
	budget[explore.Preemption], budget[explore.Expiry] = 2, 1
	found, err := lockjudge.Explore(ctx, command, lockjudge.Exploration{
		Name: name, Buyers: 2, Budget: budget, Most: budget.Total(), For: 20 * time.Second,
	})
	return &found.Result, err
}

// judgedLock is what came of a lock.
type judgedLock struct {
	explored   *explore.Result // nil: its program cannot do that
	engine     string
	took       time.Duration // of the behaviours
	total      time.Duration // with the sales
	behaviours []lockjudge.Judged
	sales      []finding.Result
	err        error
}

// judgeLock tries the behaviours of a lock, and then sells under it.
func judgeLock(r *testbed.Rig, command []string, p *progress) (j judgedLock) {
	addr := r.OwnRedis().Addr() // a redis-server, or, where none is installed, the laboratory's own
	j.engine = r.Engine().Redis
	began := time.Now()
	p.say("trying the behaviours")
	j.behaviours, j.err = lockjudge.Judge(r.Context(), lockjudge.Options{
		Command: command, Redis: addr,
		Progress: func(done, of int) { p.note(fmt.Sprintf("%d of %d behaviours", done, of)) },
	})
	j.took = time.Since(began)
	if j.err == nil {
		j.sales, j.err = lockjudge.Sell(r, lockjudge.SaleOptions{Command: command, Redis: addr, Progress: p.say})
	}
	j.total = time.Since(began)
	return j
}

// print prints the judgement. What broke is its error.
func (j *judgedLock) print(req judgeRequest, stdout, stderr io.Writer) error {
	document := lockjudge.NewDocument(req.name, j.engine, j.total, j.behaviours, j.sales)
	document.Explored = j.explored
	var err error
	if req.json {
		err = json.NewEncoder(stdout).Encode(document)
	} else {
		err = j.printText(req, stdout)
	}
	if req.report != "" && err == nil {
		if err = report.WritePage(req.report, document.Page); err == nil {
			_, err = fmt.Fprintf(stderr, "report: %s\n", filepath.Join(req.report, report.File))
		}
	}
	return errors.Join(err, lockjudge.Verdict(j.behaviours, j.sales))
}

func (j *judgedLock) printText(req judgeRequest, stdout io.Writer) error {
	if j.explored != nil {
		printFound(stdout, *j.explored)
		fmt.Fprintln(stdout)
	}
	if err := lockjudge.Report(stdout, req.name, j.engine, j.took, j.behaviours); err != nil {
		return err
	}
	if err := lockjudge.ReportSales(stdout, j.sales); err != nil {
		return err
	}
	shown := lockjudge.Shown(j.sales)
	if shown == nil || shown.Witness == nil {
		return nil
	}
	fmt.Fprintln(stdout)
	return report.Lanes(stdout, *shown.Witness, width(stdout), colour(stdout), i18n.English)
}

// build builds a package, and returns the command that starts it, and what removes it.
func build(ctx context.Context, pkg string, p *progress) (command []string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "lab-lock-")
	if err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(pkg); err == nil && info.IsDir() && !filepath.IsAbs(pkg) {
		pkg = "./" + filepath.Clean(pkg)
	}
	p.say("building " + pkg)
	program := filepath.Join(folder, "lock")
	//nolint:gosec // the package that was asked for
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, pkg).CombinedOutput()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("build %s: %w\n%s", pkg, err, out), os.RemoveAll(folder))
	}
	return []string{program}, func() { _ = os.RemoveAll(folder) }, nil
}

// lockName are names that are a Go package, a folder and a part of a key.
var lockName = regexp.MustCompile(`^[a-z][a-z0-9]{0,30}$`)

// newLock writes a lock with a mistake into a new folder.
func newLock(_ context.Context, args []string, stdout, _ io.Writer) error {
	switch {
	case isHelp(args):
		return errHelp
	case len(args) != 1:
		return usagef("how is the lock to be called?")
	case !lockName.MatchString(args[0]):
		return usagef("%q cannot be the name of a lock: small letters and digits, a letter first", args[0])
	}
	name := args[0]
	if module, err := os.ReadFile("go.mod"); err != nil || !strings.HasPrefix(string(module), "module seckill\n") {
		return usagef("a new lock belongs in this repository: run lab in its folder, where go.mod is")
	}
	if err := os.Mkdir(name, 0o750); err != nil {
		return err
	}
	path := filepath.Join(name, "main.go")
	if err := os.WriteFile(path, []byte(template.Source(name)), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "wrote %s, a lock with one mistake. Find it:\n\n  go run ./cmd/lab judge ./%s\n", path, name)
	return err
}
