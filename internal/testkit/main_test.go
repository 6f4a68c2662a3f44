package testkit_test

import (
	"os"
	osexec "os/exec"
	"strings"
	"testing"
	"time"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// childScenario names the variable that tells a test that it runs in a child of this test binary, and as what.
const childScenario = "TESTKIT_CHILD"

// runChild runs one test of this binary in a process of its own, for what would end this one. Returns what it printed.
func runChild(test string, env ...string) (string, error) {
	cmd := osexec.Command(os.Args[0], "-test.run=^"+test+"$", "-test.v")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestMainFailsOnALeftoverGoroutine(t *testing.T) {
	out, err := runChild("TestLeak", childScenario+"=leak")
	if err == nil || !strings.Contains(out, "goroutines are left") || !strings.Contains(out, "testkit_test.TestLeak") {
		t.Errorf("the child ended with %v, want a failure that names the goroutine; it printed:\n%s", err, out)
	}
}

// TestLeak runs as a child of TestMainFailsOnALeftoverGoroutine; by itself it does nothing.
func TestLeak(*testing.T) {
	if os.Getenv(childScenario) == "leak" {
		go func() { select {} }()
	}
}

func TestMissingServerSkipsUnlessInfrastructureIsRequired(t *testing.T) {
	for _, tc := range []struct {
		require string
		want    string
		fails   bool
	}{
		{"", "--- SKIP: TestSharedRedisServesEveryTest", false},
		{"1", "--- FAIL: TestSharedRedisServesEveryTest", true},
	} {
		out, err := runChild("TestSharedRedisServesEveryTest", "PATH=/nowhere", "REQUIRE_INFRA="+tc.require)
		if !strings.Contains(out, tc.want) || !strings.Contains(out, "redis-server not found on PATH") || (err != nil) != tc.fails {
			t.Errorf("REQUIRE_INFRA=%q: the child ended with %v, want %q and the server's name; it printed:\n%s", tc.require, err, tc.want, out)
		}
	}
}

// wait polls until done, and fails the test after half a minute.
func wait(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited 30 s in vain for %s", what)
		}
	}
}
