package testkit

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// Without SECKILL_TEST_SERVERS=1 a test that asks for a server, a process or a port is skipped. A Redis and a folder it
// has nevertheless.
func TestGoAloneStartsNothing(t *testing.T) {
	t.Setenv(ServersVar, "")
	t.Setenv("REQUIRE_INFRA", "1") // which does not turn a test of another tier into a failure
	for name, ask := range map[string]func(TB){
		"redis-server": func(t TB) { NewRedis(t) }, "a program like it": func(t TB) { NewRedisProgram(t, Command{Path: "/bin/true"}) },
		"its clock": func(t TB) { NewRedisWithClock(t) }, "MariaDB": func(t TB) { MariaDB(t) },
		"MySQL": func(t TB) { NewMySQL(t) }, "Galera": func(t TB) { Galera(t, 3) }, "ZooKeeper": func(t TB) { NewZooKeeper(t) },
		"a proxy": func(t TB) { NewProxy(t, "127.0.0.1:1") }, "a process": func(t TB) { Start(t, Command{Path: "/bin/true"}) },
		"a child": func(t TB) { StartChild(t, "any") }, "a program": func(t TB) { Program(t, "api") }, "a tool": func(t TB) { Tool(t, "", "sh") },
		"a port": func(t TB) { FreeAddr(t) }, "whatever a server is": Servers,
	} {
		t.Run(name, func(t *testing.T) {
			skipped := false
			t.Run("asks", func(t *testing.T) {
				defer func() { skipped = t.Skipped() }()
				ask(t)
			})
			if !skipped {
				t.Error("it was not skipped")
			}
		})
	}
	client := redis.NewClient(AnyRedis(t))
	defer client.Close()
	if first, second := KeyPrefix(t), KeyPrefix(t); first == second || !strings.HasPrefix(first, "t-TestGoAloneStartsNothing-") {
		t.Errorf("key prefixes %q and %q, want two that name the test", first, second)
	}
	fail.If(t, client.Set(t.Context(), KeyPrefix(t)+"x", 1, 0).Err())
	path, remove, err := Folder()
	fail.NowIf(t, err)
	fail.If(t, remove())
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

func TestLeakedGoroutineIsNamed(t *testing.T) {
	end := make(chan struct{})
	go func() { <-end }()
	if err := leakedGoroutines(0); err == nil || !strings.Contains(err.Error(), "TestLeakedGoroutineIsNamed") {
		t.Errorf("found %v, want the goroutine of this test", err)
	}
	close(end)
	fail.If(t, leakedGoroutines(shutdownTimeout), "after its end")
}

func TestStopwatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a machine that is never late
		s := StartStopwatch()
		simulate.Sleep(time.Second)
		fail.Unequal(t, s.Stop(), time.Second, "a second was measured as")
	})
}
