package testbed_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A build of the service is announced before it begins, and does not count as an experiment's time.
func TestSlowBuildIsAnnounced(t *testing.T) {
	testkit.Servers(t)
	tools := t.TempDir()
	slowGo := "#!/bin/sh\nsleep 2\necho '#!/bin/sh' >\"$3\"\n" // go build -o PATH
	fail.NowIf(t, os.WriteFile(filepath.Join(tools, "go"), []byte(slowGo), 0o700))
	t.Setenv("PATH", tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	var mu sync.Mutex
	var notices []string
	e, err := testbed.Open(t.Context(), testbed.Options{Notice: func(what i18n.Text) {
		mu.Lock()
		defer mu.Unlock()
		notices = append(notices, what.String())
	}})
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, e.Leave())
	})
	if _, err = e.WithRig(t.Context(), "builds", nil, func(r *testbed.Rig) {
		before, began := r.Elapsed(), time.Now()
		path := testbed.Binary(r)
		if took, counted := time.Since(began), r.Elapsed()-before; took < 2*time.Second || counted > took-2*time.Second {
			t.Errorf("the build took %v, of which %v count", took, counted)
		}
		fail.If(t, fail.Of(os.Stat(path)))
	}); err != nil {
		t.Error(err)
	}
	built := func(what string) bool { return strings.HasPrefix(what, "building the service from source") }
	if !slices.ContainsFunc(notices, built) || !built(notices[0]) || !strings.HasPrefix(notices[len(notices)-1], "the service is built, in ") {
		t.Errorf("told %q", notices)
	}
}
