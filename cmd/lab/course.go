package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/course"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge/template"
)

func courseHelp(w io.Writer) {
	fmt.Fprint(w, `lab course is a course about locks that checks itself: twelve lessons of some
200 minutes, and three more, on a laptop with Go alone.

usage: lab course               how far you are
       lab course next          the next task
       lab course reset N       begin lesson N anew
       lab course name NAME     your name, for a certificate or a class
       lab course sheet         the teacher's sheet: answers, minutes, trouble
       lab course export FILE...  the progress of a class as CSV

  --dir DIR  where progress and locks are (default mycourse); it can be moved
  --lang L   en, the default, or zh, Chinese

lab check does a task, lab hint helps. DIR/progress.json has the answers, too:
it is a certificate, which lab verify checks again.
`)
}

// courseFolder is where progress and locks are, if nobody says otherwise.
const courseFolder = "mycourse"

// courseRequest is what the commands of the course have in common.
type courseRequest struct {
	dir  string
	lang i18n.Language
	rest []string
}

// parseCourse reads the flags of a command of the course. more adds further ones.
func parseCourse(name string, args []string, more func(*flag.FlagSet)) (courseRequest, error) {
	req := courseRequest{lang: i18n.English}
	flags := newFlags(name)
	flags.StringVar(&req.dir, "dir", courseFolder, "")
	flags.Func("lang", "", func(text string) error {
		req.lang = i18n.Language(text)
		if !slices.Contains(i18n.Languages(), req.lang) {
			return errors.New("it is en or zh")
		}
		return nil
	})
	if more != nil {
		more(flags)
	}
	var err error
	req.rest, err = parseAnywhere(flags, args)
	return req, err
}

func runCourse(_ context.Context, args []string, stdout, _ io.Writer) error {
	req, err := parseCourse("course", args, nil)
	if err != nil {
		return err
	}
	all, err := experiments.All()
	if err != nil {
		return err
	}
	what, rest := "", []string{}
	if len(req.rest) > 0 {
		what, rest = req.rest[0], req.rest[1:]
	}
	wants := map[string]int{"": 0, "next": 0, "sheet": 0, "reset": 1, "name": 1}
	n, known := wants[what]
	switch {
	case what == "export":
		return exportClass(rest, stdout)
	case !known:
		return usagef("there is no lab course %s", what)
	case len(rest) != n:
		return usagef("lab course %s takes %d arguments", what, n)
	case what == "sheet":
		return course.Sheet(stdout, all, req.lang)
	}
	p, err := course.Load(req.dir)
	if err != nil {
		return err
	}
	switch what {
	case "next":
		return nextTask(stdout, req, all, p)
	case "reset":
		return resetLesson(stdout, req, p, rest[0])
	case "name":
		p.Name = rest[0]
		return p.Save(req.dir)
	}
	return courseStatus(stdout, req, p)
}

// courseStatus says how far somebody is.
func courseStatus(w io.Writer, req courseRequest, p *course.Progress) error {
	next, number, open := p.Next()
	columns := min(width(w), defaultWidth)
	const indent = 9
	for i, l := range course.Lessons() {
		n, unfinished := p.Task(l)
		sign := "  "
		switch {
		case !unfinished:
			sign = "✓ "
		case l.ID == next.ID:
			sign = "→ "
		}
		told := i18n.F("%d min, %s", l.Minutes, l.Level.Text())
		if n > 0 && unfinished {
			told = i18n.F("%s; %d of %d tasks", told, n, len(l.Tasks))
		}
		fmt.Fprintf(w, "  %s%2d  %s\n%*s%s\n", sign, i+1, hang(l.Title.In(req.lang), 6, columns), indent, "", told.In(req.lang))
	}
	if !open {
		_, err := fmt.Fprintf(w, "\n%s\n", wrap(i18n.F("All lessons are done. %s is the certificate.", filepath.Join(req.dir, course.ProgressFile)).In(req.lang), columns))
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n  go run ./cmd/lab course next\n", wrap(i18n.F("Lesson %d is next: %s", number, next.Title).In(req.lang), columns))
	return err
}

// nextTask prints the next task. If the task is to mend a lock, it writes the lock's files.
func nextTask(w io.Writer, req courseRequest, all lab.Set, p *course.Progress) error {
	l, number, open := p.Next()
	if !open {
		return courseStatus(w, req, p)
	}
	n, _ := p.Task(l)
	p.Of(l, time.Now())
	if err := p.Save(req.dir); err != nil {
		return err
	}
	columns := min(width(w), defaultWidth)
	say := func(text i18n.Text) { fmt.Fprintf(w, "%s\n", wrap(text.In(req.lang), columns)) }
	if n == 0 {
		say(i18n.F("Lesson %d. %s", number, l.Title))
		fmt.Fprintln(w)
		say(i18n.F("Goal: %s", l.Goal))
		for _, s := range l.Sources(all) {
			say(i18n.F("Documents: %s: %s", s.Document, s.Section))
		}
		fmt.Fprintln(w)
	}
	return putTask(w, req, all, l, number, n)
}

// lessonFolder is where the lock of a lesson is.
func lessonFolder(req courseRequest, number int) string {
	return filepath.Join(req.dir, fmt.Sprintf("lesson%d", number))
}

// putTask puts a task.
func putTask(w io.Writer, req courseRequest, all lab.Set, l course.Lesson, number, n int) error {
	task, folder := l.Tasks[n], lessonFolder(req, number)
	columns := min(width(w), defaultWidth)
	fmt.Fprintf(w, "%s\n", wrap(i18n.F("Task %d of %d. %s", n+1, len(l.Tasks), task.Ask(all, filepath.Join(folder, "main.go"))).In(req.lang), columns))
	answer := ""
	switch task.Kind {
	case course.Predict:
		e, err := all.Find(task.Experiment)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "\n%s", describe(all, e, columns, req.lang))
		answer = " PREDICTION"
	case course.Hold:
		answer = " " + task.Allowed[0] + "=VALUE"
	case course.Smallest:
		answer = " VALUE"
	case course.ByHand:
		answer = " FILE"
	case course.Schedule:
		answer = " SCHEDULE"
	case course.Repair:
		answer = " --watch"
		if err := writeLock(task, folder); err != nil {
			return err
		}
	case course.Cause:
	}
	_, err := fmt.Fprintf(w, "\n  go run ./cmd/lab check %d%s\n  go run ./cmd/lab hint %d\n", number, answer, number)
	return err
}

// writeLock writes the lock of a task that is to be mended. One that is there already stays.
func writeLock(task course.Task, folder string) error {
	one, err := template.Find(task.Template)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, "main.go")
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(one.Source(folder)), 0o600)
}

// resetLesson begins a lesson anew. A lock that was changed is kept beside the new one.
func resetLesson(w io.Writer, req courseRequest, p *course.Progress, name string) error {
	l, number, err := course.Find(name)
	if err != nil {
		return usagef("which lesson? %v", err)
	}
	delete(p.Lessons, l.ID)
	if err := p.Save(req.dir); err != nil {
		return err
	}
	path := filepath.Join(lessonFolder(req, number), "main.go")
	err = os.Rename(path, path+time.Now().Format(".20060102-150405"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", i18n.F("Lesson %d begins anew.", number).In(req.lang))
	return err
}

// exportClass writes the progress of a class.
func exportClass(files []string, stdout io.Writer) error {
	if len(files) == 0 {
		return usagef("whose progress? the files progress.json")
	}
	var class []*course.Progress
	for _, file := range files {
		p, err := course.ReadProgress(file)
		if err != nil {
			return err
		}
		if p.Name == "" {
			p.Name = file
		}
		class = append(class, p)
	}
	return course.Export(stdout, class)
}

func hintHelp(w io.Writer) {
	fmt.Fprint(w, `lab hint helps with a lesson, in three steps: a question, the place in the
picture or the program, the line.

usage: lab hint [N] [--dir DIR] [--lang L]
`)
}

func hint(_ context.Context, args []string, stdout, _ io.Writer) error {
	req, err := parseCourse("hint", args, nil)
	if err != nil {
		return err
	}
	p, err := course.Load(req.dir)
	if err != nil {
		return err
	}
	l, _, open := p.Next()
	switch {
	case len(req.rest) > 1:
		return usagef("unexpected argument %q", req.rest[1])
	case len(req.rest) == 1:
		if l, _, err = course.Find(req.rest[0]); err != nil {
			return usagef("which lesson? %v", err)
		}
	case !open:
		return courseStatus(stdout, req, p)
	}
	n := p.Hint(l, time.Now())
	if err := p.Save(req.dir); err != nil {
		return err
	}
	text := i18n.F("Hint %d of %d. %s", n, len(l.Hints), l.Hints[n-1])
	_, err = fmt.Fprintf(stdout, "%s\n", wrap(text.In(req.lang), min(width(stdout), defaultWidth)))
	return err
}
