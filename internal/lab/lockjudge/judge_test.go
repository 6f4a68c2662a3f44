package lockjudge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/listing"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/lockjudge/serve"
	"seckill/internal/lab/lockjudge/template"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// lockEnv makes this program a lock that is judged.
const lockEnv = "SECKILL_JUDGED_LOCK"

func TestMain(m *testing.M) {
	if name := os.Getenv(lockEnv); name != "" {
		renews := name == "reentrant" || name == "renewal-once"
		serve.Main(renews, func(client *redis.Client, watchdog time.Duration) (lock.Locker, error) {
			return judged(name, client, watchdog)
		})
	}
	testkit.Main(m)
}

// judged opens a lock of the project, or one whose watchdog gives up.
func judged(name string, client *redis.Client, watchdog time.Duration) (lock.Locker, error) {
	if name == "renewal-once" {
		options := *client.Options()
		options.MaxRetries = -1 // else the client itself tries the renewal again
		return listing.Open(listing.RenewalOnce, "lua", listing.Config{Redis: redis.NewClient(&options), Watchdog: watchdog})
	}
	set, err := lockers.Open(lockers.Servers{Redis: client}, lockers.Config{Watchdog: watchdog})
	if err != nil {
		return nil, err
	}
	return set.Locker(name)
}

// broken judges a lock and returns what breaks.
func broken(t *testing.T, name, redis string, only ...locktest.Behaviour) map[locktest.Behaviour]lockjudge.Judged {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return brokenOf(t, []string{"/usr/bin/env", lockEnv + "=" + name, self}, redis, only...)
}

func brokenOf(
	t *testing.T, command []string, redis string, only ...locktest.Behaviour,
) map[locktest.Behaviour]lockjudge.Judged {
	t.Helper()
	results, err := lockjudge.Judge(t.Context(), lockjudge.Options{Command: command, Redis: redis, Only: only})
	if err != nil {
		t.Fatal(err)
	}
	found := map[locktest.Behaviour]lockjudge.Judged{}
	for _, r := range results {
		t.Logf("%s: broken %q, untried %q", r.Behaviour, r.Broken, r.Untried)
		if r.Untried != "" && !strings.Contains(r.Untried, "watchdog") {
			t.Errorf("%s could not be tried: %s", r.Behaviour, r.Untried)
		}
		if len(r.History) > 10 || r.Broken != "" && len(r.History) == 0 {
			t.Errorf("%s has a history of %d events", r.Behaviour, len(r.History))
		}
		if r.Broken != "" {
			found[r.Behaviour] = r
		}
	}
	return found
}

// A sound lock breaks nothing that matters, and the one flaw of another is found without being
// told what to look for.
func TestJudgeFindsTheFlaw(t *testing.T) {
	redis := testkit.NewRedis(t).Addr()
	matter := []locktest.Behaviour{
		locktest.ExcludesProcesses, locktest.ReleasesOnlyOwn, locktest.ReleasesAtomically, locktest.RenewalIsRetried,
		locktest.TellsExpiredFromLost, locktest.FreedAfterDeath, locktest.ToldWhenDeleted,
	}
	for name, want := range map[string][]locktest.Behaviour{
		"reentrant": nil,
		// It also ignores the lease that is asked for, so that a dead holder's lock stays.
		"renewal-once": {
			locktest.RenewalIsRetried, locktest.TellsExpiredFromLost, locktest.FreedAfterDeath, locktest.ToldWhenDeleted,
		},
		"naive": {locktest.ReleasesOnlyOwn, locktest.TellsExpiredFromLost, locktest.ToldWhenDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			found := broken(t, name, redis, matter...)
			for _, b := range want { // some flaws are races, which a busy machine may decide the other way
				for n := 0; found[b].Broken == "" && n < 5; n++ {
					maps.Copy(found, broken(t, name, redis, b))
				}
			}
			for _, b := range matter {
				if _, is := found[b]; is != slices.Contains(want, b) {
					t.Errorf("%s breaks: %v, want %v", b, is, !is)
				}
			}
		})
	}
}

// The judge needs no installed server.
func TestJudgeOnAnInProcessRedis(t *testing.T) {
	mini := miniredis.RunT(t)
	mini.ClockTTL(true)
	found := broken(t, "naive", mini.Addr(), locktest.ExcludesProcesses, locktest.ReleasesOnlyOwn, locktest.LeaseRunsOut)
	if len(found) != 1 || found[locktest.ReleasesOnlyOwn].Broken == "" {
		t.Errorf("found %v, want releases-only-own alone", found)
	}
}

// The template compiles, and breaks in the way that it is meant to.
func TestTemplateHasItsMistake(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(template.Source("mylock")), 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replaced := map[string]string{filepath.Join(here, "mylock", "main.go"): source}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "mylock")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "-o", program, "./mylock")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the template: %v\n%s", err, out)
	}
	found := brokenOf(t, []string{program}, testkit.NewRedis(t).Addr(),
		locktest.ExcludesProcesses, locktest.ReleasesOnlyOwn, locktest.ReleasesAtomically, locktest.ReleasesOnce,
		locktest.TellsExpiredFromLost, locktest.SurvivesLostGrantReply, locktest.FreedAfterDeath)
	if len(found) != 1 || found[locktest.ReleasesAtomically].Broken == "" {
		t.Errorf("found %v, want releases-atomically alone", found)
	}
}

// A lock in another language is judged in the same way.
func TestJudgeRedisPy(t *testing.T) {
	const how = "apt-get install python3-redis"
	python := testkit.Tool(t, how, "/usr/bin/python3")
	if exec.CommandContext(t.Context(), python, "-c", "import redis").Run() != nil {
		testkit.Require(t, &testkit.MissingError{Server: "Python's package redis", How: how})
	}
	found := brokenOf(t, []string{python, "../../../examples/locks/redis_py.py"}, testkit.NewRedis(t).Addr(),
		locktest.ReleasesOnlyOwn, locktest.TriesOnce, locktest.ToldWhenExpired)
	if len(found) != 1 || found[locktest.ToldWhenExpired].Broken == "" {
		t.Errorf("found %v, want told-when-expired alone", found)
	}
}

func TestJudgeSaysWhatDoesNotStart(t *testing.T) {
	for want, command := range map[string][]string{
		"no command":           nil,
		"no such file":         {"/nowhere/lock"},
		"has ended":            {"/bin/true"},
		"no line of the proto": {"/bin/echo", "hello"},
	} {
		_, err := lockjudge.Judge(t.Context(), lockjudge.Options{Command: command, Redis: "127.0.0.1:1"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q in it", command, err, want)
		}
	}
}

// The gravest comes first, with its history; comforts do not count.
func TestReport(t *testing.T) {
	results := []lockjudge.Judged{
		{
			Grade: lockjudge.Exclusion, Behaviour: locktest.ReleasesOnlyOwn, Broken: "it was deleted",
			History: []lockjudge.Event{{At: 0, Who: "process 1", What: "release seat: released"}},
		},
		{Grade: lockjudge.Liveness, Behaviour: locktest.LeaseRunsOut},
		{Grade: lockjudge.Telling, Behaviour: locktest.ToldWhenDeleted, Untried: "no server\nand more"},
		{Grade: lockjudge.Comfort, Behaviour: locktest.Reenters, Broken: "it waits for itself"},
	}
	var out bytes.Buffer
	if err := lockjudge.Report(&out, "mylock", "a server", 3*time.Second, results); err != nil {
		t.Error(err)
	}
	if err := lockjudge.Verdict(results, nil); !errors.Is(err, lockjudge.ErrBroken) || !strings.Contains(err.Error(), "1 behaviours") {
		t.Errorf("the verdict is %v", err)
	}
	last := -1
	for _, want := range []string{
		"mylock: 2 of 3 behaviours break, in 3 s, on a server", "MUTUAL EXCLUSION", "releases-only-own breaks",
		"seen: it was deleted", "process 1  release seat: released", "COMFORT", "reenters breaks", "Held: lease-runs-out",
		"Not tried: told-when-deleted (no server)",
	} {
		at := strings.Index(out.String(), want)
		if at <= last {
			t.Errorf("%q is missing, or not where it belongs, in\n%s", want, out.String())
		}
		last = at
	}
	if err := lockjudge.Verdict(results[1:], nil); err != nil {
		t.Errorf("a lock that lacks a comfort only: %v", err)
	}
	if got := fmt.Sprint(lockjudge.Exclusion, lockjudge.Comfort); got != "mutual exclusion comfort" {
		t.Errorf("the grades are called %s", got)
	}
}
