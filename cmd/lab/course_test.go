package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/course"
	"seckill/internal/testkit/fail"
)

// The course shows where one is, hints one step further each time, and puts the lock of a lesson there once.
func TestCourse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mine")
	says := func(want string, args ...string) {
		t.Helper()
		code, stdout, stderr := call(t, append(args, "--dir", dir)...)
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("%q: exit %d, %s%s, want %q", args, code, stdout, stderr, want)
		}
	}
	says("Lesson 1 is next", "course")
	says("下一课是第 1 课", "course", "--lang", "zh")
	says("Task 1 of 3. Predict no-lock.", "course", "next")
	for _, step := range []string{"Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3", "Hint 3 of 3"} {
		says(step, "hint", "wrong-del")
	}
	says("", "course", "name", "Ann")
	says("# The teacher's sheet", "course", "sheet")

	p, err := course.Load(dir)
	fail.NowIf(t, err)
	for _, l := range course.Lessons()[:4] {
		for n := 0; n < len(l.Tasks) && l.Tasks[n].Kind != course.Repair; n++ {
			p.Add(l, course.Outcome{Done: true, Right: true}, time.Now())
		}
	}
	fail.NowIf(t, p.Save(dir))
	lock := filepath.Join(dir, "lesson4", "main.go")
	says(lock, "course", "next")
	fail.If(t, fail.Of(os.Stat(lock)))
	fail.NowIf(t, os.WriteFile(lock, []byte("mine"), 0o600))
	says("releases-only-own", "course", "next")
	kept, err := os.ReadFile(lock)
	if err != nil || string(kept) != "mine" {
		t.Errorf("the lock is now %q, %v", kept, err)
	}
	says("Lesson 4 begins anew", "course", "reset", "4")
	if left, err := filepath.Glob(lock + ".*"); err != nil || len(left) != 1 {
		t.Errorf("the lock that was changed is kept as %q, %v", left, err)
	}
	says("Ann,3,", "course", "export", filepath.Join(dir, course.ProgressFile))
	for _, args := range [][]string{
		{"course", "nonsense"}, {"course", "reset"}, {"course", "reset", "99"}, {"course", "export"}, {"course", "--lang", "fr"}, {"hint", "99"},
		{"check", "1", "breaks"}, {"check", "4", "--watch"}, {"verify"}, {"check", "--instances", "0"},
	} {
		if code, _, stderr := call(t, append(args, "--dir", dir)...); code != exitUsage {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}

// While an answer is checked, which may take minutes, a hint is asked for, and the page counts a run. Neither is lost,
// and no task is done twice.
func TestCheckKeepsWhatCameMeanwhile(t *testing.T) {
	dir, l, now := t.TempDir(), course.Lessons()[0], time.Now()
	c := &checking{courseRequest: courseRequest{dir: dir}}
	meanwhile, err := course.Load(dir)
	fail.NowIf(t, err)
	meanwhile.Hint(l, now)
	fail.NowIf(t, meanwhile.Save(dir))
	for range 2 {
		fail.NowIf(t, c.record(l, 0, course.Outcome{Done: true, Right: true, Answer: "breaks"}))
	}
	p, err := course.Load(dir)
	fail.NowIf(t, err)
	if mine := p.Lessons[l.ID]; mine.Hints != 1 || len(mine.Tasks) != 1 {
		t.Errorf("the progress is %+v", mine)
	}
}
