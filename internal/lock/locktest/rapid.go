package locktest

import (
	"flag"
	"fmt"
	"strings"
	"sync"

	"pgregory.net/rapid"
)

// quietRapid keeps rapid from writing files of failures: where a breakage is
// claimed, they are none.
func (t *trial) quietRapid() {
	rapidQuiet.Do(func() { t.check(flag.Set("rapid.nofailfile", "true")) })
}

// rapidQuiet is a package variable since rapid's settings are.
var rapidQuiet sync.Once

// rapidJudge stands in for the test: what rapid finds is for the claim to judge.
type rapidJudge struct {
	name   string
	failed bool
	text   strings.Builder
}

var _ rapid.TB = (*rapidJudge)(nil)

func (j *rapidJudge) Helper()             {}
func (j *rapidJudge) Name() string        { return j.name }
func (j *rapidJudge) Logf(string, ...any) {}
func (j *rapidJudge) Log(...any)          {}
func (j *rapidJudge) Skipf(string, ...any) {
}
func (j *rapidJudge) Skip(...any) {}
func (j *rapidJudge) SkipNow()    {}
func (j *rapidJudge) Errorf(format string, args ...any) {
	j.failed = true
	fmt.Fprintf(&j.text, format, args...)
}
func (j *rapidJudge) Error(args ...any)                 { j.Errorf("%s", fmt.Sprint(args...)) }
func (j *rapidJudge) Fatalf(format string, args ...any) { j.Errorf(format, args...) }
func (j *rapidJudge) Fatal(args ...any)                 { j.Errorf("%s", fmt.Sprint(args...)) }
func (j *rapidJudge) FailNow()                          { j.failed = true }
func (j *rapidJudge) Fail()                             { j.failed = true }
func (j *rapidJudge) Failed() bool                      { return j.failed }

// seed is rapid's advice on how to see the failure again.
func (j *rapidJudge) seed() string {
	_, after, found := strings.Cut(j.text.String(), "-rapid.seed=")
	if !found {
		return ""
	}
	seed, _, _ := strings.Cut(after, "\n")
	return " (again with -rapid.seed=" + seed + ")"
}
