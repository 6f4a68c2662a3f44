//go:build unix

package testkit_test

import (
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"syscall"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// childScenario is the environment variable that tells TestInAChild which part it plays.
const childScenario = "TESTKIT_CHILD"

// runChild runs TestInAChild in a process of its own, because it would end this one. It returns its output.
func runChild(t *testing.T, scenario string, env ...string) (string, error) {
	t.Helper()
	testkit.Servers(t)
	cmd := osexec.Command(os.Args[0], "-test.run=^TestInAChild$", "-test.v")
	cmd.Env = append(append(os.Environ(), childScenario+"="+scenario), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// What a test binary says and how it ends.
func TestBinary(t *testing.T) {
	const missing = "SECKILL_TEST_ZOOKEEPER=/nowhere"
	for name, c := range map[string]struct {
		scenario string
		env      []string
		fails    bool
		says     []string
	}{
		"a goroutine is left":           {"leak", nil, true, []string{"goroutines are left", "testkit_test.TestInAChild"}},
		"closed twice, and used again":  {"close", nil, false, []string{"--- PASS"}},
		"no redis-server":               {"redis", []string{"PATH=/nowhere", "REQUIRE_INFRA="}, false, []string{"--- SKIP", "redis-server not found on PATH: apt-get install"}},
		"no redis-server, and it must":  {"redis", []string{"PATH=/nowhere", "REQUIRE_INFRA=1"}, true, []string{"--- FAIL", "redis-server not found on PATH"}},
		"no ZooKeeper":                  {"zookeeper", []string{missing, "REQUIRE_INFRA="}, false, []string{"--- SKIP", "not found on PATH"}},
		"no ZooKeeper, and it must":     {"zookeeper", []string{missing, "REQUIRE_INFRA=1"}, true, []string{"--- FAIL", "not found on PATH"}},
		"no server, and no tier for it": {"redis", []string{testkit.ServersVar + "=", "REQUIRE_INFRA=1"}, false, []string{"--- SKIP", "make test runs it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := runChild(t, c.scenario, c.env...)
			if (err != nil) != c.fails {
				t.Errorf("it ended with %v", err)
			}
			for _, part := range c.says {
				if !strings.Contains(out, part) {
					t.Errorf("no %q in\n%s", part, out)
				}
			}
		})
	}
}

// TestInAChild runs in a child process; by itself it does nothing.
func TestInAChild(t *testing.T) {
	switch scenario := os.Getenv(childScenario); scenario {
	case "":
	case "leak":
		go func() { select {} }()
	case "close":
		closeTwice(t)
	case "redis":
		testkit.Redis(t)
	case "zookeeper":
		testkit.ZooKeeper(t)
	default:
		endAbnormally(t, scenario)
	}
}

// closeTwice closes what is shared twice, and uses it again in between.
func closeTwice(t *testing.T) {
	folder, _, err := testkit.Folder()
	fail.NowIf(t, err)
	for range 2 {
		shared := testkit.Redis(t)
		pid := shared.Client(t).InfoMap(t.Context(), "server").Item("Server", "process_id")
		for range 2 {
			if err := testkit.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		waitGone(t, pid)
		waitRemoved(t, shared.Dir())
	}
	waitRemoved(t, folder) // nobody removed it: the reaper did
}

// endAbnormally starts two servers, and a process that has a child of its own, which the kernel does not kill with it.
// It ends this process without stopping them.
func endAbnormally(t *testing.T, how string) {
	parent := testkit.Start(t, testkit.Command{Path: "/bin/sh", Args: []string{"-c", `/bin/sleep 1000 & echo "child $!"; wait`}})
	fmt.Printf("left process %s in %s\n", parent.WaitLine(t, `child (\d+)`)[1], testkit.Redis(t).Dir())
	for _, server := range []*testkit.RedisServer{testkit.Redis(t), testkit.NewRedis(t)} {
		info := server.Client(t).InfoMap(t.Context(), "server")
		fmt.Printf("left process %s in %s\n", info.Item("Server", "process_id"), server.Dir())
	}
	switch how {
	case "panic":
		panic("as asked")
	case "exit":
		os.Exit(7)
	}
	fail.NowIf(t, syscall.Kill(os.Getpid(), syscall.SIGKILL))
	select {}
}
