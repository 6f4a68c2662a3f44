package testbed_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lab/tell"
	"seckill/internal/lab/testbed"
)

// A slow build of the service does not count as an experiment's time, and is announced.
func TestClockStandsStillDuringABuild(t *testing.T) {
	tools := t.TempDir()
	slowGo := "#!/bin/sh\nsleep 3\necho '#!/bin/sh' >\"$3\"\n" // go build -o PATH
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte(slowGo), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	var mu sync.Mutex
	var notices []string
	e, err := testbed.Open(t.Context(), testbed.Options{Notice: func(what tell.Text) {
		mu.Lock()
		defer mu.Unlock()
		notices = append(notices, what.String())
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Leave(); err != nil {
			t.Error(err)
		}
	})
	const limit = 2 * time.Second // less than the build takes
	testbed.Limit(e, limit)

	if _, err = e.Run(t.Context(), "builds", nil, func(r *testbed.Run) {
		began := time.Now()
		path := testbed.Binary(r)
		if took, counted := time.Since(began), r.Elapsed(); took < 3*time.Second || counted > took-2*time.Second {
			t.Errorf("the build took %v, of which %v count", took, counted)
		}
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Error(err)
	}
	built := func(what string) bool { return strings.HasPrefix(what, "building the service from source") }
	if !slices.ContainsFunc(notices, built) || !strings.HasPrefix(notices[len(notices)-1], "the service is built, in ") {
		t.Errorf("told %q", notices)
	}

	_, err = e.Run(t.Context(), "takes too long", nil, func(r *testbed.Run) {
		testbed.Binary(r) // the stopwatch runs again afterwards
		r.Sleep(time.Minute)
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "took longer than 2s") {
		t.Errorf("err = %v", err)
	}
}
