package testbed_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMissingServersAreNamed(t *testing.T) {
	testkit.Servers(t)
	t.Setenv("PATH", "/nowhere")
	t.Setenv("SECKILL_TEST_ZOOKEEPER", "/nowhere")
	env, err := testbed.Open(t.Context(), testbed.Options{}) // it remembers what it ran on
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, env.Leave())
	})
	for _, require := range []string{"", "1"} {
		for _, need := range []testbed.Server{testbed.RedisServer, testbed.Redis, testbed.Nodes} {
			t.Setenv("REQUIRE_INFRA", require)
			played := false
			skipped, err := env.WithRig(t.Context(), t.Name(), []testbed.Server{need}, func(*testbed.Rig) { played = true })
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

// The laboratory's own Redis server is killed and restarted as redis-server is: it comes back empty, at the same
// address. While it is paused its keys expire.
func TestOwnRedis(t *testing.T) {
	runScenario(t, embedded, []testbed.Server{testbed.Redis, testbed.Nodes}, func(r *testbed.Rig) {
		ctx := t.Context()
		server := r.OwnRedis()
		client := server.Client(r)
		set := func(lease time.Duration) {
			fail.NowIf(t, client.Set(ctx, "lock", "buyer 1", lease).Err())
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
		fail.Unequal(t, r.Engine().Redis, testbed.EmbeddedRedis, "it ran on")
		nodes := r.Nodes(3)
		if slices.Contains(nodes, server.Addr()) || nodes[0] == nodes[1] || nodes[1] == nodes[2] {
			t.Errorf("nodes %q, another server %s: they are not independent", nodes, server.Addr())
		}
	})
}
