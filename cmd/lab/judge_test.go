package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestNewLock(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"new-lock", "mine"}, &out, &errs); code != exitUsage || !strings.Contains(errs.String(), "this repository") {
		t.Errorf("outside of the repository: exit %d, %s", code, errs.String())
	}
	if err := os.WriteFile("go.mod", []byte("module seckill\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "My-Lock", "../up", "9lives"} {
		if code := run(t.Context(), []string{"new-lock", bad}, &out, &errs); code != exitUsage {
			t.Errorf("a lock called %q: exit %d", bad, code)
		}
	}
	if code := run(t.Context(), []string{"new-lock", "mine"}, &out, &errs); code != exitOK || !strings.Contains(out.String(), "judge ./mine") {
		t.Errorf("exit %d, %s%s", code, out.String(), errs.String())
	}
	source, err := os.ReadFile("mine/main.go")
	if err != nil || !strings.Contains(string(source), `"mine:{"`) || strings.Contains(string(source), "NAME") {
		t.Errorf("%v; it wrote\n%s", err, source)
	}
	if code := run(t.Context(), []string{"new-lock", "mine"}, &out, &errs); code != exitFailed {
		t.Errorf("a lock that is there already: exit %d", code)
	}
}

func TestJudgeUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"--"}, {"--fast"}, {"one", "two"}, {"one", "--", "two"}, {"--json"}, {"--report", "judge_test.go", "one"}} {
		var out, errs bytes.Buffer
		if code := run(t.Context(), append([]string{"judge"}, args...), &out, &errs); code != exitUsage {
			t.Errorf("judge %q: exit %d, %s", args, code, errs.String())
		}
	}
}
