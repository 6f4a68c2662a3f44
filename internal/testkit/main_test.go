package testkit_test

import (
	"context"
	"errors"
	"net"
	"os"
	osexec "os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// childScenario is the environment variable that tells a test that it runs in a child of this test
// binary, and in which role.
const childScenario = "TESTKIT_CHILD"

// runChild runs one test of this binary in a child process, because it would end this one. It returns
// its output.
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

// A pool whose dials fail sleeps between them, and notices a second later that it was closed.
func TestMainWaitsForAClosedRedisPool(t *testing.T) {
	out, err := runChild("TestFailingPool", childScenario+"=pool")
	if err != nil || !strings.Contains(out, "PASS") {
		t.Errorf("the child ended with %v; it printed:\n%s", err, out)
	}
}

// TestFailingPool runs as a child of TestMainWaitsForAClosedRedisPool; by itself it does nothing.
func TestFailingPool(t *testing.T) {
	if os.Getenv(childScenario) != "pool" {
		return
	}
	client := redis.NewClient(&redis.Options{
		PoolSize: 1, MaxRetries: -1, DialerRetries: 1,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("nobody there") },
	})
	for range 3 { // as many failed dials as the pool has connections
		if err := client.Ping(t.Context()).Err(); err == nil {
			t.Error("Ping succeeded without a server")
		}
	}
	if err := client.Close(); err != nil {
		t.Error(err)
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
