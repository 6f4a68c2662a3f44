package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/lockjudge/template"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock/locktest"
)

func judgeHelp(w io.Writer) {
	fmt.Fprint(w, `lab judge says whether a lock holds what it promises, and which behaviours
break, the gravest first, each with what happened just before, and what has
changed since the last time. A lock may say which behaviours it leaves out; it
promises the others, except comforts, which a lock can do without, as re-entry.
First it tries the schedules of a lock in Go in virtual time, as lab explore
does, for 20 s at most. At last it sells a voucher under the lock twice, once
with a buyer who takes longer than the lease, and draws it.

usage: lab judge [flags] FOLDER          a lock in Go, as lab new-lock writes it
       lab judge [flags] -- COMMAND ...  a lock in another language

  --goal NAME    this behaviour alone decides, as releases-atomically. No
                 schedules are tried, and nothing is sold: it takes 10 s
  --json         one object on standard output, nothing else
  --report DIR   write DIR/index.html, one file that needs no other

The lock runs in processes of its own, which are killed and cut off from their
server. Such a process reads requests from its standard input and writes answers
to its standard output, one JSON object per line: internal/lab/lockjudge/wire
has the protocol, examples/locks has locks that speak it. The server is a
redis-server, or one inside this process where none is installed.

Exit code: 0 when the lock holds what it promises, or the goal is reached, 1
when not, or when the lock could not be judged, 2 for wrong usage.
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
		p.say("building " + req.folder)
		if command, remove, err = lockjudge.Build(ctx, req.folder); err != nil {
			return err
		}
		defer remove()
	}
	judged := judgedLock{Judgement: lockjudge.Judgement{Name: req.name, Goal: req.goal}}
	if req.command == nil && req.goal == "" {
		judged.explored = exploreFirst(ctx, req.name, command, p)
	}
	_, err = env.WithRig(ctx, "judge", nil, func(r *testbed.Rig) { judged.judge(r, command, p) })
	p.clear()
	if err = errors.Join(err, judged.err); err != nil {
		return err
	}
	judged.remember(req)
	return judged.print(req, stdout, stderr)
}

// judgeRequest is a parsed call of lab judge.
type judgeRequest struct {
	name    string
	folder  string   // of a lock in Go
	command []string // of another one
	json    bool
	report  string
	goal    locktest.Behaviour // "": all that it promises
}

func parseJudge(args []string) (judgeRequest, error) {
	var req judgeRequest
	flags := newFlags("judge")
	flags.BoolVar(&req.json, "json", false, "")
	flags.StringVar(&req.report, "report", "", "")
	flags.Func("goal", "", func(name string) error {
		if req.goal = locktest.Behaviour(name); !lockjudge.IsBehaviour(req.goal) {
			return errors.New("no behaviour is called that; lab judge names them")
		}
		return nil
	})
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

// exploreLimit is how long a lock's schedules are tried.
const exploreLimit = 20 * time.Second

// exploreFirst tries a lock's schedules in virtual time, for a while: those in which messages or work are late, and a
// lease ends. A program that cannot do that is judged all the same.
func exploreFirst(ctx context.Context, name string, command []string, p *progress) *explore.Result {
	p.say("trying its schedules in virtual time")
	var budget explore.Budget
	budget[explore.Preemption], budget[explore.Expiry] = 2, 1
	ctx, cancel := context.WithTimeout(ctx, 2*exploreLimit)
	defer cancel()
	found, err := lockjudge.Explore(ctx, command, lockjudge.Exploration{
		Name: name, Buyers: 2, Budget: budget, Most: budget.Total(), For: exploreLimit,
	})
	if err != nil {
		reason, _, _ := strings.Cut(err.Error(), "\n")
		p.say("its schedules were not tried: " + reason)
		return nil
	}
	return &found.Result
}

// judgedLock is what came of a lock.
type judgedLock struct {
	lockjudge.Judgement
	explored *explore.Result // nil: its program cannot do that, or was not asked
	total    time.Duration   // with the sales
	err      error
}

// judge tries the behaviours of a lock, and then sells under it, unless one behaviour decides.
func (j *judgedLock) judge(r *testbed.Rig, command []string, p *progress) {
	addr := r.OwnRedis().Addr() // a redis-server, or, where none is installed, the laboratory's own
	j.Engine = r.Engine().Redis
	began := time.Now()
	p.say("trying the behaviours")
	j.Results, j.err = lockjudge.Judge(r.Context(), lockjudge.Options{
		Command: command, Redis: addr,
		Progress: func(done, of int) { p.note(fmt.Sprintf("%d of %d behaviours", done, of)) },
	})
	j.Took = time.Since(began)
	if j.err == nil && j.Goal == "" {
		j.Sales, j.err = lockjudge.Sell(r, lockjudge.SaleOptions{Command: command, Redis: addr, Progress: p.say})
	}
	j.total = time.Since(began)
}

// remember compares the judgement with the last one of the same lock, and keeps it for the next time. It is only a
// help: where nothing can be kept, nothing is compared.
func (j *judgedLock) remember(req judgeRequest) {
	what := strings.Join(req.command, "\x00")
	if req.command == nil {
		what, _ = filepath.Abs(req.folder)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return
	}
	sum := sha256.Sum256([]byte(what))
	path := filepath.Join(cache, "seckill", "judged", fmt.Sprintf("%x.json", sum[:8]))
	var before map[locktest.Behaviour]string
	if data, err := os.ReadFile(path); err == nil && json.Unmarshal(data, &before) == nil {
		j.Compare(before)
	}
	data, err := json.Marshal(j.State())
	if err == nil && os.MkdirAll(filepath.Dir(path), 0o700) == nil {
		_ = os.WriteFile(path, data, 0o600)
	}
}

// print prints the judgement. What broke is its error.
func (j *judgedLock) print(req judgeRequest, stdout, stderr io.Writer) error {
	document := lockjudge.NewDocument(&j.Judgement, j.total)
	document.Explored = j.explored
	var err error
	if req.json {
		err = json.NewEncoder(stdout).Encode(document)
	} else {
		err = j.printText(stdout)
	}
	if req.report != "" && err == nil {
		if err = report.WritePage(req.report, document.Page); err == nil {
			_, err = fmt.Fprintf(stderr, "report: %s\n", filepath.Join(req.report, report.File))
		}
	}
	return errors.Join(err, j.Err())
}

func (j *judgedLock) printText(stdout io.Writer) error {
	if j.explored != nil {
		printFound(stdout, *j.explored)
		fmt.Fprintln(stdout)
	}
	if err := j.Report(stdout); err != nil {
		return err
	}
	if err := lockjudge.ReportSales(stdout, j.Sales); err != nil {
		return err
	}
	shown := lockjudge.Shown(j.Sales)
	if shown == nil || shown.Witness == nil {
		return nil
	}
	fmt.Fprintln(stdout)
	return report.Lanes(stdout, *shown.Witness, width(stdout), colour(stdout), i18n.English)
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
	flawed, err := template.Find(template.Default)
	if err != nil {
		return err
	}
	path := filepath.Join(name, "main.go")
	if err := os.WriteFile(path, []byte(flawed.Source(name)), 0o600); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "wrote %s, a lock with one mistake. Find it:\n\n  go run ./cmd/lab judge ./%s\n", path, name)
	return err
}
