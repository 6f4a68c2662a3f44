package main

import (
	"os"
	"strings"
	"testing"

	"seckill/internal/lab/lockjudge"
	"seckill/internal/lock/locktest"
)

func TestNewLock(t *testing.T) {
	t.Chdir(t.TempDir())
	wantExit := func(want int, says, name string) {
		t.Helper()
		code, stdout, stderr := call(t, "new-lock", name)
		if code != want || !strings.Contains(stdout+stderr, says) {
			t.Errorf("a lock called %q: exit %d, %s%s", name, code, stdout, stderr)
		}
	}
	wantExit(exitUsage, "this repository", "mine") // outside of it
	if err := os.WriteFile("go.mod", []byte("module seckill\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "My-Lock", "../up", "9lives"} {
		wantExit(exitUsage, "", bad)
	}
	wantExit(exitOK, "judge ./mine", "mine")
	source, err := os.ReadFile("mine/main.go")
	if err != nil || !strings.Contains(string(source), `"mine:{"`) || strings.Contains(string(source), "NAME") {
		t.Errorf("%v; it wrote\n%s", err, source)
	}
	wantExit(exitFailed, "", "mine") // it is there already
}

func TestJudgeUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--"}, {"--fast"}, {"one", "two"}, {"one", "--", "two"}, {"--json"}, {"--report", "judge_test.go", "one"}} {
		if code, _, stderr := call(t, append([]string{"judge"}, args...)...); code != exitUsage {
			t.Errorf("judge %q: exit %d, %s", args, code, stderr)
		}
	}
}

// A judgement is compared with the last one of the same lock, and of no other.
func TestJudgementIsRemembered(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	judged := func(folder, broken string) []string {
		j := judgedLock{Judgement: lockjudge.Judgement{Results: []lockjudge.Judged{{Behaviour: locktest.ReleasesAtomically, Broken: broken}}}}
		j.remember(judgeRequest{folder: folder})
		return j.Since
	}
	for _, step := range []struct{ folder, broken, since string }{
		{"mine", "seen", ""}, {"mine", "", "releases-atomically holds now"}, {"mine", "", "nothing has changed"}, {"yours", "seen", ""},
		{"mine", "seen", "releases-atomically breaks now"},
	} {
		if got := strings.Join(judged(step.folder, step.broken), ", "); got != step.since {
			t.Errorf("%+v: since the last time %q", step, got)
		}
	}
}
