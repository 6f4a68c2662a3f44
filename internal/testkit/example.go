package testkit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
)

// ExamplesNeed skips the Examples of a package, with a message, where they may not use real servers, or where one that
// they need is not installed; with REQUIRE_INFRA=1 one that is not installed makes them fail instead. Call it in
// TestMain before [Main]. The servers are those of [Installed].
func ExamplesNeed(servers ...string) {
	flag.Parse() // the flags of the test binary, so that the one below is not overwritten
	for _, server := range servers {
		err := Installed(server)
		skip := flag.Lookup("test.skip")
		if err == nil || skip == nil || os.Getenv("REQUIRE_INFRA") == "1" && !errors.Is(err, errTier) {
			continue
		}
		fmt.Fprintf(os.Stderr, "testkit: the Examples are skipped: %v\n", err)
		patterns := []string{"^Example"}
		if given := skip.Value.String(); given != "" {
			patterns = append(patterns, given)
		}
		_ = skip.Value.Set(strings.Join(patterns, "|")) // a string flag takes every value
		return
	}
}

// Example returns a TB for an Example, which has no *testing.T, and the function that ends it. An error panics: the
// output of an Example is what it is compared with.
func Example() (t TB, end func()) {
	e := &exampleTB{}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	return e, e.end
}

type exampleTB struct {
	ctx      context.Context
	cancel   context.CancelFunc
	cleanups []func()
}

func (e *exampleTB) end() {
	e.cancel()
	for _, cleanup := range slices.Backward(e.cleanups) {
		cleanup()
	}
}

func (e *exampleTB) Helper()                  {}
func (e *exampleTB) Name() string             { return "Example" }
func (e *exampleTB) Failed() bool             { return false }
func (e *exampleTB) Cleanup(f func())         { e.cleanups = append(e.cleanups, f) }
func (e *exampleTB) Context() context.Context { return e.ctx }

func (e *exampleTB) TempDir() string {
	path, remove, err := Folder()
	if err != nil {
		e.Fatalf("testkit: create a folder: %v", err)
	}
	e.Cleanup(func() {
		if err := remove(); err != nil {
			e.Errorf("testkit: remove the folder: %v", err)
		}
	})
	return path
}

func (e *exampleTB) Logf(format string, args ...any)   { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (e *exampleTB) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *exampleTB) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (e *exampleTB) Skipf(format string, args ...any)  { panic(fmt.Sprintf(format, args...)) }
