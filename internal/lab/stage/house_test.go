package stage_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/stage"
)

func TestHowAnExperimentEnds(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		scene         func(*stage.Stage)
		skipped, says string
	}{
		"by itself":             {func(*stage.Stage) {}, "", ""},
		"Fatalf":                {func(s *stage.Stage) { s.Fatalf("no: %w", refused) }, "", "no: refused"},
		"Errorf":                {func(s *stage.Stage) { s.Errorf("no: %w", refused) }, "", "no: refused"},
		"Skipf":                 {func(s *stage.Stage) { s.Skipf("not here") }, "not here", ""},
		"Skipf after Errorf":    {func(s *stage.Stage) { s.Errorf("%w", refused); s.Skipf("not here") }, "", "refused"},
		"panic":                 {func(*stage.Stage) { panic("oh") }, "", "house_test.go"},
		"Fatalf in a cleanup":   {func(s *stage.Stage) { s.Cleanup(func() { s.Fatalf("late") }) }, "", "clean up: late"},
		"panic in a cleanup":    {func(s *stage.Stage) { s.Cleanup(func() { panic("oh") }) }, "", "panic: oh"},
		"Fatalf beside, waited": {func(s *stage.Stage) { s.Go(func() { s.Fatalf("beside") })() }, "", "beside"},
		"panic beside":          {func(s *stage.Stage) { s.Go(func() { panic("oh") }) }, "", "panic: oh"},
		"cut off beside":        {func(s *stage.Stage) { s.Go(func() { s.Pause(time.Hour) }) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			skipped, err := house.Play(t.Context(), name, nil, func(s *stage.Stage) {
				s.Cleanup(func() { order = append(order, "second") })
				s.Cleanup(func() { order = append(order, "first") })
				test.scene(s)
			})
			if skipped != test.skipped {
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
	play(t, house, nil, func(s *stage.Stage) {
		folders = []string{s.TempDir(), s.TempDir()}
		ctx = s.Context()
		s.Go(func() { <-s.Context().Done() }) // nobody waits for it but the end
	})
	if folders[0] == folders[1] {
		t.Error("the same folder twice")
	}
	for _, f := range folders {
		if _, err := os.Stat(f); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", f, err)
		}
	}
	if ctx.Err() == nil {
		t.Error("its context goes on")
	}
}

func TestEndOfContextEndsTheExperiment(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := house.Play(ctx, t.Name(), nil, func(s *stage.Stage) {
		cancel()
		s.Until("never", func() bool { return false })
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "never") {
		t.Errorf("err = %v", err)
	}
}

func TestEmbeddedHouseLeavesServersAlone(t *testing.T) {
	t.Setenv("REQUIRE_INFRA", "1")
	for _, need := range []stage.Server{stage.Redis, stage.Database, stage.ZooKeeper, stage.Nodes, stage.Clock} {
		skipped, err := embedded.Play(t.Context(), t.Name(), []stage.Server{need}, func(*stage.Stage) { t.Error("it was played") })
		if err != nil || !strings.Contains(skipped, "needs ") {
			t.Errorf("%s: skipped %q, %v", need, skipped, err)
		}
	}
}

func TestMissingServersAreNamed(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	t.Setenv("SECKILL_TEST_ZOOKEEPER", "/nowhere")
	for _, require := range []string{"", "1"} {
		t.Setenv("REQUIRE_INFRA", require)
		skipped, err := house.Play(t.Context(), t.Name(), []stage.Server{stage.Nodes}, func(*stage.Stage) { t.Error("it was played") })
		if require == "" && (err != nil || !strings.Contains(skipped, "redis-server not found on PATH: apt-get")) {
			t.Errorf("skipped: %q, %v", skipped, err)
		}
		if require == "1" && (err == nil || !strings.Contains(err.Error(), "REQUIRE_INFRA=1")) {
			t.Errorf("err = %v", err)
		}
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []stage.Options{{Instances: -1}, {Duration: -1}} {
		if h, err := stage.Open(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = h.Close()
		}
	}
}
