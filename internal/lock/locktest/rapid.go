package locktest

import (
	"flag"
	"fmt"
	"strings"
	"sync"

	"pgregory.net/rapid"
)

// quietRapid keeps rapid from writing a file for every failure, because a claimed
// breakage is none.
func (t *trial) quietRapid() {
	rapidQuiet.Do(func() { t.checkErr(flag.Set("rapid.nofailfile", "true")) })
}

// rapidQuiet is a package variable because rapid's settings are global flags.
var rapidQuiet sync.Once

// rapidTB is passed to rapid instead of the test. It only records failures: the claim
// decides whether they fail the test.
type rapidTB struct {
	name   string
	failed bool
	text   strings.Builder
}

var _ rapid.TB = (*rapidTB)(nil)

func (tb *rapidTB) Helper()             {}
func (tb *rapidTB) Name() string        { return tb.name }
func (tb *rapidTB) Logf(string, ...any) {}
func (tb *rapidTB) Log(...any)          {}
func (tb *rapidTB) Skipf(string, ...any) {
}
func (tb *rapidTB) Skip(...any) {}
func (tb *rapidTB) SkipNow()    {}
func (tb *rapidTB) Errorf(format string, args ...any) {
	tb.failed = true
	fmt.Fprintf(&tb.text, format, args...)
}
func (tb *rapidTB) Error(args ...any)                 { tb.Errorf("%s", fmt.Sprint(args...)) }
func (tb *rapidTB) Fatalf(format string, args ...any) { tb.Errorf(format, args...) }
func (tb *rapidTB) Fatal(args ...any)                 { tb.Errorf("%s", fmt.Sprint(args...)) }
func (tb *rapidTB) FailNow()                          { tb.failed = true }
func (tb *rapidTB) Fail()                             { tb.failed = true }
func (tb *rapidTB) Failed() bool                      { return tb.failed }

// seed is the flag with which rapid reproduces the failure.
func (tb *rapidTB) seed() string {
	_, after, found := strings.Cut(tb.text.String(), "-rapid.seed=")
	if !found {
		return ""
	}
	seed, _, _ := strings.Cut(after, "\n")
	return " (reproduce with -rapid.seed=" + seed + ")"
}
