package testbed_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/builtin"
	"seckill/internal/lab/testbed"
)

func TestHowAnExperimentEnds(t *testing.T) {
	refused := errors.New("refused")
	for name, test := range map[string]struct {
		scene         func(*testbed.Run)
		skipped, says string
	}{
		"by itself":             {func(*testbed.Run) {}, "", ""},
		"Fatalf":                {func(r *testbed.Run) { r.Fatalf("no: %w", refused) }, "", "no: refused"},
		"Errorf":                {func(r *testbed.Run) { r.Errorf("no: %w", refused) }, "", "no: refused"},
		"Skipf":                 {func(r *testbed.Run) { r.Skipf("not here") }, "not here", ""},
		"Skipf after Errorf":    {func(r *testbed.Run) { r.Errorf("%w", refused); r.Skipf("not here") }, "", "refused"},
		"panic":                 {func(*testbed.Run) { panic("oh") }, "", "environment_test.go"},
		"Fatalf in a cleanup":   {func(r *testbed.Run) { r.Cleanup(func() { r.Fatalf("late") }) }, "", "clean up: late"},
		"panic in a cleanup":    {func(r *testbed.Run) { r.Cleanup(func() { panic("oh") }) }, "", "panic: oh"},
		"Fatalf beside, waited": {func(r *testbed.Run) { r.Go(func() { r.Fatalf("beside") })() }, "", "beside"},
		"panic beside":          {func(r *testbed.Run) { r.Go(func() { panic("oh") }) }, "", "panic: oh"},
		"cut off beside":        {func(r *testbed.Run) { r.Go(func() { r.Sleep(time.Hour) }) }, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var order []string
			skipped, err := env.Run(t.Context(), name, nil, func(r *testbed.Run) {
				r.Cleanup(func() { order = append(order, "second") })
				r.Cleanup(func() { order = append(order, "first") })
				test.scene(r)
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
	runScenario(t, env, nil, func(r *testbed.Run) {
		folders = []string{r.TempDir(), r.TempDir()}
		ctx = r.Context()
		r.Go(func() { <-r.Context().Done() }) // only the end of the run waits for it
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
	_, err := env.Run(ctx, t.Name(), nil, func(r *testbed.Run) {
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
		skipped, err := embedded.Run(t.Context(), t.Name(), []testbed.Server{need}, func(*testbed.Run) { t.Error("it was played") })
		if err != nil || !strings.Contains(skipped.String(), "needs ") {
			t.Errorf("%s: skipped %q, %v", need, skipped, err)
		}
	}
}

func TestMissingServersAreNamed(t *testing.T) {
	t.Setenv("PATH", "/nowhere")
	t.Setenv("SECKILL_TEST_ZOOKEEPER", "/nowhere")
	env, err := testbed.Open(t.Context(), testbed.Options{}) // it remembers what it ran on
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Leave(); err != nil {
			t.Error(err)
		}
	})
	for _, require := range []string{"", "1"} {
		for _, need := range []testbed.Server{testbed.RedisServer, testbed.Redis, testbed.Nodes} {
			t.Setenv("REQUIRE_INFRA", require)
			played := false
			skipped, err := env.Run(t.Context(), t.Name(), []testbed.Server{need}, func(*testbed.Run) { played = true })
			switch {
			case require == "1":
				if played || err == nil || !strings.Contains(err.Error(), "REQUIRE_INFRA=1") {
					t.Errorf("%s: played %v, err = %v", need, played, err)
				}
			case need != testbed.RedisServer: // the laboratory has its own
				if !played || err != nil {
					t.Errorf("%s: skipped: %q, %v", need, skipped, err)
				}
			case played || err != nil || !strings.Contains(skipped.String(), "redis-server not found on PATH: apt-get"):
				t.Errorf("%s: skipped: %q, %v", need, skipped, err)
			}
		}
	}
}

// The laboratory's own Redis server is killed and restarted as redis-server is: it comes back empty, at the
// same address. While it is paused its keys expire.
func TestOwnRedis(t *testing.T) {
	runScenario(t, embedded, []testbed.Server{testbed.Redis, testbed.Nodes}, func(r *testbed.Run) {
		ctx := t.Context()
		server := r.OwnRedis()
		client := server.Client(r)
		set := func(lease time.Duration) {
			if err := client.Set(ctx, "lock", "buyer 1", lease).Err(); err != nil {
				t.Fatal(err)
			}
		}
		set(time.Hour)
		server.Kill()
		if err := client.Ping(ctx).Err(); err == nil {
			t.Error("it answers after its death")
		}
		server.Restart()
		if n, err := client.Exists(ctx, "lock").Result(); n != 0 || err != nil {
			t.Errorf("after the restart: %d keys, %v", n, err)
		}
		const lease = 50 * time.Millisecond
		set(lease)
		server.Pause()
		r.Sleep(2 * lease)
		server.Resume()
		if n, err := client.Exists(ctx, "lock").Result(); n != 0 || err != nil {
			t.Errorf("after the pause: %d keys, %v", n, err)
		}
		if got := r.Engine().Redis; got != builtin.Engine {
			t.Errorf("it ran on %q", got)
		}
		nodes := r.Nodes(3)
		if slices.Contains(nodes, server.Addr()) || nodes[0] == nodes[1] || nodes[1] == nodes[2] {
			t.Errorf("nodes %q, another server %s: they are not independent", nodes, server.Addr())
		}
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []testbed.Options{{Instances: -1}, {Duration: -1}} {
		if e, err := testbed.Open(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
			_ = e.Close()
		}
	}
}
