package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/testbed"
)

func judgeHelp(w io.Writer) {
	fmt.Fprint(w, `lab judge says which behaviours of a lock break, the gravest first, each with what
happened just before. It does not ask what the lock promises.

usage: lab judge FOLDER            a lock in Go, as lab new-lock writes it
       lab judge -- COMMAND ...    a lock in another language

The lock runs in processes of its own, which are killed and cut off from their
server. Such a process reads requests from its standard input and writes answers to
its standard output, one JSON object per line: internal/lab/lockjudge/wire has the
protocol, examples/locks has locks that speak it. The server is a redis-server, or
one inside this process where none is installed.

Exit code: 0 when nothing broke but comforts, 1 when something graver broke or the
lock could not be judged, 2 for wrong usage.
`)
}

func newLockHelp(w io.Writer) {
	fmt.Fprint(w, `lab new-lock writes a lock to learn with, in a new folder of this repository. It has
one mistake, for lab judge to find and for you to mend.

usage: lab new-lock NAME           small letters and digits
`)
}

// isHelp reports whether a call asks for help.
func isHelp(args []string) bool {
	return len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help")
}

// judge builds a lock, if it is in Go, and judges it.
func judge(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	switch {
	case isHelp(args):
		return errHelp
	case len(args) == 0:
		return usagef("which lock? a folder, or -- and a command")
	case args[0] == "--" && len(args) == 1:
		return usagef("after -- there is no command")
	case args[0] != "--" && len(args) > 1:
		return usagef("unexpected argument %q; a command comes after --", args[1])
	case args[0] != "--" && strings.HasPrefix(args[0], "-"):
		return usagef("there is no flag %s", args[0])
	}
	p := &progress{w: stderr, total: 1, interactive: interactive(stderr)}
	options := testbed.Defaults()
	options.Progress, options.Notice = p.note, p.say
	env, err := testbed.Open(ctx, options)
	if err != nil {
		return err
	}
	defer func() {
		p.clear()
		err = errors.Join(err, env.Close())
	}()
	name, command := filepath.Base(args[0]), args
	if args[0] == "--" {
		name, command = strings.Join(args[1:], " "), args[1:]
	} else {
		folder, err := os.MkdirTemp("", "lab-judge-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		if command, err = build(ctx, args[0], folder, p); err != nil {
			return err
		}
	}
	var verdict error
	_, err = env.Run(ctx, "judge", nil, func(r *testbed.Run) {
		addr, engine := r.AnyRedis()
		began := time.Now()
		results, err := lockjudge.Judge(r.Context(), lockjudge.Options{
			Command: command, Redis: addr,
			Progress: func(done, of int) { p.note(fmt.Sprintf("%d of %d behaviours", done, of)) },
		})
		if err != nil {
			verdict = err
			return
		}
		p.clear()
		verdict = lockjudge.Report(stdout, name, engine, time.Since(began), results)
	})
	return errors.Join(err, verdict)
}

// build builds a package into a folder, and returns the command that starts it.
func build(ctx context.Context, pkg, folder string, p *progress) ([]string, error) {
	if info, err := os.Stat(pkg); err == nil && info.IsDir() && !filepath.IsAbs(pkg) {
		pkg = "./" + filepath.Clean(pkg)
	}
	p.say("building " + pkg)
	program := filepath.Join(folder, "lock")
	//nolint:gosec // the package that was asked for
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, pkg).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return []string{program}, nil
}
