package testbed_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// env and embedded are shared by the tests. They are package variables because TestMain cannot pass values to tests.
var env, embedded *testbed.Environment

func TestMain(m *testing.M) {
	testbed.MainIfRedis()
	testkit.Main(withEnvironments{m})
}

// withEnvironments opens the environments, runs the tests and closes them.
type withEnvironments struct{ tests *testing.M }

func (h withEnvironments) Run() int {
	ctx := context.Background()
	var err error
	if env, err = testbed.Open(ctx, testbed.Options{}); err == nil {
		embedded, err = testbed.Open(ctx, testbed.Options{Embedded: true})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := h.tests.Run()
	if err := errors.Join(embedded.Leave(), env.Close()); err != nil {
		fmt.Fprintln(os.Stderr, "close the environments:", err)
		code = max(code, 1)
	}
	return code
}

// play runs a scenario, which must come to its end.
func runScenario(t *testing.T, in *testbed.Environment, needs []testbed.Server, scenario func(*testbed.Rig)) {
	t.Helper()
	if slices.Contains(needs, testbed.RedisServer) || slices.Contains(needs, testbed.Database) {
		testkit.Servers(t)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // includes building the service
	defer cancel()
	skipped, err := in.WithRig(ctx, t.Name(), needs, scenario)
	fail.NowIf(t, err)
	if !skipped.IsZero() {
		t.Skip(skipped.String())
	}
}
