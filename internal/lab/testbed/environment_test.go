package testbed_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/testbed"
	"seckill/internal/testkit/fail"
)

func TestHowAnExperimentEnds(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		scenario      func(*testbed.Rig)
		skipped, says string
	}{
		"by itself":             {func(*testbed.Rig) {}, "", ""},
		"Fatalf":                {func(r *testbed.Rig) { r.Fatalf("no: %w", refused) }, "", "no: refused"},
		"Errorf":                {func(r *testbed.Rig) { r.Errorf("no: %w", refused) }, "", "no: refused"},
		"Skipf":                 {func(r *testbed.Rig) { r.Skipf("not here") }, "not here", ""},
		"Skipf after Errorf":    {func(r *testbed.Rig) { r.Errorf("%w", refused); r.Skipf("not here") }, "", "refused"},
		"panic":                 {func(*testbed.Rig) { panic("oh") }, "", "environment_test.go"},
		"Fatalf in a cleanup":   {func(r *testbed.Rig) { r.Cleanup(func() { r.Fatalf("late") }) }, "", "clean up: late"},
		"panic in a cleanup":    {func(r *testbed.Rig) { r.Cleanup(func() { panic("oh") }) }, "", "panic: oh"},
		"Fatalf beside, waited": {func(r *testbed.Rig) { r.Go(func() { r.Fatalf("beside") })() }, "", "beside"},
		"panic beside":          {func(r *testbed.Rig) { r.Go(func() { panic("oh") }) }, "", "panic: oh"},
		"cut off beside":        {func(r *testbed.Rig) { r.Go(func() { r.Sleep(time.Hour) }) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			skipped, err := env.WithRig(t.Context(), name, nil, func(r *testbed.Rig) {
				r.Cleanup(func() { order = append(order, "second") })
				r.Cleanup(func() { order = append(order, "first") })
				test.scenario(r)
			})
			if skipped.String() != test.skipped {
				t.Errorf("skipped: %q, want %q", skipped, test.skipped)
			}
			if (err != nil) != (test.says != "") || err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("err = %v, want %q", err, test.says)
			}
			if !slices.Equal(order, []string{"first", "second"}) {
				t.Errorf("cleaned up: %q", order)
			}
		})
	}
}

func TestStageGoesWithItsFolderAndContext(t *testing.T) {
	var folders []string
	var ctx context.Context
	runScenario(t, env, nil, func(r *testbed.Rig) {
		folders = []string{r.TempDir(), r.TempDir()}
		ctx = r.Context()
		r.Go(func() { <-r.Context().Done() }) // only the end of the run waits for it
	})
	if folders[0] == folders[1] {
		t.Error("the same folder twice")
	}
	for _, f := range folders {
		fail.Unless(t, fail.Of(os.Stat(f)), os.ErrNotExist, "%s is still there", f)
	}
	if ctx.Err() == nil {
		t.Error("its context goes on")
	}
}

func TestEndOfContextEndsTheExperiment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := env.WithRig(ctx, t.Name(), nil, func(r *testbed.Rig) {
		cancel()
		r.Until("never", func() bool { return false })
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "never") {
		t.Errorf("err = %v", err)
	}
}

func TestEmbeddedHouseLeavesServersAlone(t *testing.T) {
	t.Setenv("REQUIRE_INFRA", "1")
	for _, need := range []testbed.Server{testbed.RedisServer, testbed.Database, testbed.ZooKeeper, testbed.Clock} {
		skipped, err := embedded.WithRig(t.Context(), t.Name(), []testbed.Server{need}, func(*testbed.Rig) { t.Error("it was played") })
		if err != nil || !strings.Contains(skipped.String(), "needs ") {
			t.Errorf("%s: skipped %q, %v", need, skipped, err)
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []testbed.Options{{Instances: -1}, {Duration: -1}} {
		if e, err := testbed.Open(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = e.Close()
		}
	}
}
