//go:build unix

package testkit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"seckill/internal/testkit"
)

var _ testkit.TB = testing.TB(nil)

// experiment is a [testkit.TB] that is not a test.
type experiment struct {
	context  context.Context
	folder   string
	cleanups []func()
	failed   bool
}

// abort is the value of the panic with which an experiment ends where a test would end its goroutine.
type abort struct {
	skipped bool
	text    string
}

func (e *experiment) Helper()                  {}
func (e *experiment) Name() string             { return "experiment" }
func (e *experiment) Failed() bool             { return e.failed }
func (e *experiment) Cleanup(f func())         { e.cleanups = append(e.cleanups, f) }
func (e *experiment) Context() context.Context { return e.context }
func (e *experiment) TempDir() string          { return e.folder }
func (e *experiment) Logf(string, ...any)      {}
func (e *experiment) Errorf(string, ...any)    { e.failed = true }
func (e *experiment) Fatalf(format string, args ...any) {
	panic(abort{text: fmt.Sprintf(format, args...)})
}
func (e *experiment) Skipf(format string, args ...any) {
	panic(abort{skipped: true, text: fmt.Sprintf(format, args...)})
}

// run runs an experiment and returns how it was aborted, if it was.
func run(t *testing.T, script func(testkit.TB)) (end abort) {
	t.Helper()
	e := &experiment{context: t.Context(), folder: t.TempDir()}
	defer func() {
		switch r := recover().(type) {
		case nil:
		case abort:
			end = r
		default:
			panic(r)
		}
		for _, f := range slices.Backward(e.cleanups) {
			f()
		}
		if e.failed {
			t.Error("the experiment failed")
		}
	}()
	script(e)
	return end
}

func TestExperimentUsesTheSameServers(t *testing.T) {
	testkit.Require(t, testkit.Installed("redis-server"))
	var own string
	end := run(t, func(tb testkit.TB) {
		server := testkit.NewRedis(tb)
		own = server.Dir()
		for _, s := range []*testkit.RedisServer{testkit.Redis(tb), server} {
			if err := s.Client(tb).Ping(tb.Context()).Err(); err != nil {
				tb.Errorf("%v", err)
			}
		}
		tb.Fatalf("enough")
	})
	if end != (abort{text: "enough"}) {
		t.Errorf("the experiment ended with %+v", end)
	}
	waitRemoved(t, own)
}

func TestExperimentSkipsForAMissingServer(t *testing.T) {
	testkit.Servers(t)
	t.Setenv("PATH", "/nowhere")
	for _, require := range []string{"", "1"} {
		t.Setenv("REQUIRE_INFRA", require)
		end := run(t, func(tb testkit.TB) { testkit.NewRedis(tb) })
		if end.skipped != (require == "") || !strings.Contains(end.text, "redis-server not found on PATH: apt-get install") {
			t.Errorf("REQUIRE_INFRA=%q: the experiment ended with %+v", require, end)
		}
	}
}

func TestInstalledSaysHowToInstall(t *testing.T) {
	testkit.Servers(t)
	for _, server := range []string{"redis-server", "mariadbd", "mysqld", "zookeeper", "libfaketime"} {
		err := testkit.Installed(server)
		if _, missing := errors.AsType[*testkit.MissingError](err); err != nil && !missing {
			t.Errorf("%s: %v, want nil or a MissingError", server, err)
		}
	}
	t.Setenv("PATH", "/nowhere")
	t.Setenv("SECKILL_TEST_ZOOKEEPER", "/nowhere")
	for _, server := range []string{"redis-server", "zookeeper"} {
		missing, ok := errors.AsType[*testkit.MissingError](testkit.Installed(server))
		if !ok || missing.Server == "" || !strings.Contains(missing.How, "make infra") {
			t.Errorf("%s without a PATH: %v", server, missing)
		}
	}
	if _, missing := errors.AsType[*testkit.MissingError](testkit.Installed("redis")); missing {
		t.Error("an unknown name counts as a missing server")
	}
}
