package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"seckill/internal/lab/course"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/lab/testbed"
)

// errNotYet means that a task is not done.
var errNotYet = errors.New("not yet")

func checkHelp(w io.Writer) {
	fmt.Fprint(w, `lab check does the next task of the course, or of lesson N: it runs what the
answer says. Without an answer it asks for one.

usage: lab check [N] [ANSWER...] [flags]

  --watch     check the lock again whenever it is saved, until it is mended
  --dir DIR   where progress and locks are (default mycourse)
  --lang L    en, the default, or zh, Chinese
  --embedded  use no installed server

Exit code: 0 when the task is done, 1 when not yet, 2 for wrong usage.
`)
}

// checking is a call of lab check.
type checking struct {
	courseRequest
	session *session
	checker *course.Checker
	asks    *quiz
	stdout  io.Writer
}

func check(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	options, watch := testbed.Defaults(), false
	req, err := parseCourse("check", args, func(flags *flag.FlagSet) {
		optionFlags(flags, &options)
		flags.BoolVar(&watch, "watch", false, "")
	})
	if err == nil {
		err = checkOptions(options)
	}
	if err != nil {
		return err
	}
	p, err := course.Load(req.dir)
	if err != nil {
		return err
	}
	l, number, open := p.Next()
	if len(req.rest) > 0 {
		if named, n, err := course.Find(req.rest[0]); err == nil {
			l, number, req.rest = named, n, req.rest[1:]
		}
	}
	n, unfinished := p.Task(l)
	switch {
	case !open:
		return courseStatus(stdout, req, p)
	case !unfinished:
		return usagef("lesson %d is done; lab course reset %d begins it anew", number, number)
	case watch && l.Tasks[n].Kind != course.Repair:
		return usagef("--watch is for a lock that is to be mended, and task %d of lesson %d is another one", n+1, number)
	}
	c, err := openCourse(ctx, req, options, stdout, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.session.close()) }()
	if watch {
		return c.watch(ctx, l, number, n)
	}
	return c.check(ctx, l, number, n)
}

// openCourse opens a laboratory for tasks of the course.
func openCourse(ctx context.Context, req courseRequest, options testbed.Options, stdout, stderr io.Writer) (*checking, error) {
	all, err := experiments.All()
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, all, options, 1, req.lang, stderr)
	if err != nil {
		return nil, err
	}
	c := &checking{courseRequest: req, session: s, stdout: stdout, asks: &quiz{in: bufio.NewReader(os.Stdin), out: stdout, lang: req.lang}}
	c.checker = &course.Checker{Env: s.env, Lab: s.Lab, Set: all, Show: c.show, Choose: c.choose}
	return c, nil
}

func (c *checking) say(text i18n.Text) {
	c.session.progress.clear()
	line := text.In(c.lang)
	if !strings.HasPrefix(line, " ") { // a row of a table stays as it is
		line = wrap(line, min(width(c.stdout), defaultWidth))
	}
	fmt.Fprintln(c.stdout, line)
}

// show shows the result of a run: its verdict and its picture.
func (c *checking) show(r finding.Result) {
	c.say(i18n.F("%s %s.", r.ID, outcome(&r)))
	if r.Witness == nil {
		return
	}
	if err := report.Brief(c.stdout, *r.Witness, width(c.stdout), colour(c.stdout), c.lang); err == nil {
		fmt.Fprintln(c.stdout)
	}
}

// choose asks which event it was.
func (c *checking) choose(ctx context.Context, events []i18n.Text) (int, error) {
	for i, e := range events {
		fmt.Fprintf(c.stdout, "%3d  %s\n", i+1, e.In(c.lang))
	}
	fmt.Fprint(c.stdout, i18n.F("Which one?").In(c.lang)+" ")
	answer, err := c.typed(ctx)
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(answer))
	if err != nil {
		return -1, nil //nolint:nilerr // it is no event
	}
	return n - 1, nil
}

// typed is what somebody types. An input that has ended is a wrong call, whatever was asked for.
func (c *checking) typed(ctx context.Context) (string, error) {
	answer, err := c.asks.read(ctx)
	if err != nil {
		fmt.Fprintln(c.stdout)
	}
	if errors.Is(err, errNoAnswer) {
		return "", usagef("there is no answer: lab check N asks for one, at a terminal or from a pipe")
	}
	return answer, err
}

// answer is what is to be checked: what the command line says, what the lock's folder has, or what somebody types.
func (c *checking) answer(ctx context.Context, t course.Task, folder string) (string, error) {
	answer := strings.Join(c.rest, " ")
	switch {
	case t.Kind == course.Repair:
		if len(c.rest) > 0 {
			return "", usagef("the lock in %s is the answer", folder)
		}
		if err := writeLock(t, folder); err != nil {
			return "", err
		}
		text, err := os.ReadFile(filepath.Join(folder, "main.go"))
		return string(text), err
	case answer == "" && t.Kind != course.Cause:
		fmt.Fprint(c.stdout, i18n.F("Your answer?").In(c.lang)+" ")
		typed, err := c.typed(ctx)
		if err != nil {
			return "", err
		}
		answer = strings.TrimSpace(typed)
	}
	if t.Kind != course.ByHand {
		return answer, nil
	}
	text, err := os.ReadFile(answer)
	if err != nil {
		return "", usagef("the answer is a file: %v", err)
	}
	return string(text), nil
}

// check does a task once, and records what came of it.
func (c *checking) check(ctx context.Context, l course.Lesson, number, n int) error {
	task, folder := l.Tasks[n], lessonFolder(c.courseRequest, number)
	if len(c.rest) == 0 && task.Kind != course.Repair {
		c.say(i18n.F("Task %d of %d. %s", n+1, len(l.Tasks), task.Ask(c.checker.Set, filepath.Join(folder, "main.go"))))
	}
	answer, err := c.answer(ctx, task, folder)
	if err != nil {
		return err
	}
	o, err := c.checker.Check(ctx, task, answer)
	refused, unclear := errors.AsType[*course.AnswerError](err)
	switch {
	case unclear:
		return usageError{reason: refused.Why.In(c.lang)}
	case errors.Is(err, finding.ErrNoPrediction):
		return usageError{reason: i18n.F("%q is no prediction; %s.", answer, finding.Choices()).In(c.lang)}
	case errors.Is(err, course.ErrAnswer):
		return usageError{reason: err.Error()}
	case err != nil:
		return err
	}
	for i, text := range o.Says {
		if i > 0 && task.Kind != course.Repair {
			fmt.Fprintln(c.stdout)
		}
		c.say(text)
	}
	if err := c.record(l, n, o); err != nil {
		return err
	}
	fmt.Fprintln(c.stdout)
	switch {
	case !o.Done:
		return fmt.Errorf("%w: task %d of lesson %d; lab hint %d helps", errNotYet, n+1, number, number)
	case o.Right:
		c.say(i18n.F("Right. Task %d of lesson %d is done.", n+1, number))
	default:
		c.say(i18n.F("Your prediction was another one; now you know. Task %d of lesson %d is done.", n+1, number))
	}
	fmt.Fprintf(c.stdout, "\n  go run ./cmd/lab course next\n")
	return nil
}

// record adds an answer to the progress, which the page or another command may have changed while the answer was
// checked.
func (c *checking) record(l course.Lesson, n int, o course.Outcome) error {
	p, err := course.Load(c.dir)
	if err != nil {
		return err
	}
	if next, _ := p.Task(l); next != n {
		return nil // it is done already
	}
	p.Add(l, o, time.Now())
	return p.Save(c.dir)
}

// watchEvery is how often the lock is looked at.
const watchEvery = 300 * time.Millisecond

// watch checks a lock whenever it is saved, until it is mended or somebody stops it.
func (c *checking) watch(ctx context.Context, l course.Lesson, number, n int) error {
	path := filepath.Join(lessonFolder(c.courseRequest, number), "main.go")
	for {
		var before time.Time
		if info, err := os.Stat(path); err == nil {
			before = info.ModTime()
		}
		err := c.check(ctx, l, number, n)
		if !errors.Is(err, errNotYet) {
			return err
		}
		c.say(i18n.F("Not yet. %s is checked again when it is saved; Ctrl-C ends that.", path))
		for saved := false; !saved; {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(watchEvery):
			}
			info, err := os.Stat(path)
			saved = err == nil && !info.ModTime().Equal(before)
		}
	}
}

func verifyHelp(w io.Writer) {
	fmt.Fprint(w, `lab verify checks the answers of a certificate again, a progress.json of the
course: it runs the experiments, replays the scripts and judges the locks in it.
The locks are programs, and run here: take a file from people whom you trust.

usage: lab verify FILE [--lang L] [--embedded]

Exit code: 0 when each answer is as right as the file says, 1 when not, 2 for
wrong usage.
`)
}

func verifyCertificate(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	options := testbed.Defaults()
	req, err := parseCourse("verify", args, func(flags *flag.FlagSet) { optionFlags(flags, &options) })
	switch {
	case err != nil:
		return err
	case len(req.rest) != 1:
		return usagef("which file? a progress.json of the course")
	}
	p, err := course.ReadProgress(req.rest[0])
	if err != nil {
		return err
	}
	c, err := openCourse(ctx, req, options, stdout, stderr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.session.close()) }()
	c.checker.Show, c.checker.Choose = nil, nil
	done := 0
	wrong, err := course.Verify(ctx, c.checker, p, func(v course.Verified) {
		done++
		told := i18n.F("verify|as claimed")
		if v.Claimed != v.Is {
			told = i18n.F("verify|NOT AS CLAIMED")
		}
		c.say(i18n.F("Lesson %d, task %d (%s): %s", v.Number, v.Task, string(v.Kind), told))
		for _, why := range v.Why {
			c.say(why)
		}
	})
	if err != nil {
		return err
	}
	c.say(i18n.F("%s: %d of %d answers are as the file says.", p.Name, done-wrong, done))
	if wrong > 0 {
		return fmt.Errorf("%w: %d answers", errUnexpected, wrong)
	}
	return nil
}
