package main

import (
	"os"
	"strings"
	"testing"
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
