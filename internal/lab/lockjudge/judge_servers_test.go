package lockjudge_test

import (
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/lockjudge/template"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// command is the command line of a lock of the project, as the judge starts it.
func command(t *testing.T, name string) []string {
	t.Helper()
	c := testkit.Child(t, "lock", lockEnv+"="+name)
	return slices.Concat([]string{"/usr/bin/env"}, c.Env, []string{c.Path})
}

// broken judges a lock and returns what breaks.
func broken(t *testing.T, command []string, redis string, only ...locktest.Behaviour) map[locktest.Behaviour]lockjudge.Judged {
	t.Helper()
	results, err := lockjudge.Judge(t.Context(), lockjudge.Options{Command: command, Redis: redis, Only: only})
	fail.NowIf(t, err)
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

// findFlaws judges a lock until what is wanted breaks: some flaws are races, which a busy machine may decide the other
// way.
func findFlaws(t *testing.T, command []string, redis string, want ...locktest.Behaviour) {
	t.Helper()
	found := map[locktest.Behaviour]lockjudge.Judged{}
	left := want
	for try := 0; len(left) > 0; try++ {
		if try == 6 {
			t.Fatalf("these did not break: %v", left)
		}
		maps.Copy(found, broken(t, command, redis, left...))
		left = slices.DeleteFunc(slices.Clone(left), func(b locktest.Behaviour) bool { return found[b].Broken != "" })
	}
}

// safety are behaviours that a sound lock has on a machine of any speed.
func safety() []locktest.Behaviour {
	return []locktest.Behaviour{locktest.ExcludesProcesses, locktest.ReleasesOnlyOwn, locktest.ReleasesAtomically}
}

// flaws are what breaks of locks of the project, by their names.
func flaws() map[string][]locktest.Behaviour {
	return map[string][]locktest.Behaviour{
		"reentrant": nil,
		// It also ignores the lease that is asked for, so that a dead holder's lock stays.
		"renewal-once": {locktest.RenewalIsRetried, locktest.TellsExpiredFromLost, locktest.FreedAfterDeath, locktest.ToldWhenDeleted},
		"naive":        {locktest.ReleasesOnlyOwn, locktest.TellsExpiredFromLost, locktest.ToldWhenDeleted},
	}
}

// A sound lock is safe, and the flaws of others are found without being told what to look for.
func TestJudgeFindsTheFlaw(t *testing.T) {
	for name, want := range flaws() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := testkit.NewRedis(t).Addr() // a judge removes the keys of the lock that it judges
			if len(want) > 0 {
				findFlaws(t, command(t, name), redis, want...)
			} else if found := broken(t, command(t, name), redis, safety()...); len(found) > 0 {
				t.Errorf("found %v", found)
			}
		})
	}
}

// buildLock builds the program of a lock.
func buildLock(t *testing.T, text string) (program string) {
	t.Helper()
	command, remove, err := lockjudge.BuildSource(t.Context(), text)
	fail.NowIf(t, err)
	t.Cleanup(remove)
	return command[0]
}

// buildTemplate builds the lock that lab new-lock writes. The tests of the course judge it.
func buildTemplate(t *testing.T) (program string) {
	t.Helper()
	one, err := template.Find(template.Default)
	fail.NowIf(t, err)
	return buildLock(t, one.Source("mylock"))
}

// A lock in another language is judged in the same way.
func TestJudgeRedisPy(t *testing.T) {
	const how = "apt-get install python3-redis"
	python := testkit.Tool(t, how, "/usr/bin/python3")
	if exec.CommandContext(t.Context(), python, "-c", "import redis").Run() != nil {
		testkit.Require(t, &testkit.MissingError{Server: "Python's package redis", How: how})
	}
	lock, redis := []string{python, "../../../examples/locks/redis_py.py"}, testkit.NewRedis(t).Addr()
	findFlaws(t, lock, redis, locktest.ToldWhenExpired)
	if found := broken(t, lock, redis, locktest.ReleasesOnlyOwn); len(found) > 0 {
		t.Errorf("found %v, want told-when-expired alone", found)
	}
}

func TestJudgeSaysWhatDoesNotStart(t *testing.T) {
	testkit.Servers(t)
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

// shop opens what sales take place in.
func shop(t *testing.T) *testbed.Environment {
	t.Helper()
	testkit.Servers(t)
	env, err := testbed.Open(t.Context(), testbed.Defaults())
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, env.Close())
	})
	return env
}

// sold sells under a lock of the project, on a Redis of its own: in time, and with a buyer who is late.
func sold(t *testing.T, env *testbed.Environment, name string, lease time.Duration) (inTime, late finding.Result) {
	t.Helper()
	var sales []finding.Result
	_, err := env.WithRig(t.Context(), name, nil, func(r *testbed.Rig) {
		addr := r.OwnRedis().Addr()
		var err error
		if sales, err = lockjudge.Sell(r, lockjudge.SaleOptions{Command: command(t, name), Redis: addr, Lease: lease}); err != nil {
			r.Errorf("%w", err)
		}
	})
	fail.NowIf(t, err)
	if len(sales) != 2 || sales[0].ID != lockjudge.SaleInTime || sales[1].ID != lockjudge.SaleOneLate {
		t.Fatalf("%d sales: %+v", len(sales), sales)
	}
	for _, s := range sales {
		t.Logf("%s: %d orders, %v, answers %v", s.ID, s.Orders, s.Anomalies, s.Answers)
		if s.Witness == nil || len(s.Witness.Lanes) < 2 || s.Witness.Summary.In(i18n.English) == "" {
			t.Errorf("%s: the picture is %+v", s.ID, s.Witness)
		}
		if s.Requests != 80 {
			t.Errorf("%s: %d requests, want 80", s.ID, s.Requests)
		}
	}
	return sales[0], sales[1]
}

// A lock that excludes nobody oversells; under one whose lease ends during the work two hold it when a buyer is late.
func TestWeakLocksOversell(t *testing.T) {
	env := shop(t)
	inTime, _ := sold(t, env, "none", 0)
	if inTime.Observed != finding.Breaks || inTime.Anomalies[finding.Oversold] == 0 || inTime.Anomalies[finding.WrongReleases] > 0 {
		t.Errorf("none: it %s: %v", inTime.Observed, inTime.Anomalies)
	}
	judged := lockjudge.Judgement{Sales: []finding.Result{inTime}}
	err := judged.Err()
	if !errors.Is(err, lockjudge.ErrBroken) || !strings.Contains(err.Error(), inTime.Title) {
		t.Errorf("the verdict is %v", err)
	}
	_, late := sold(t, env, "naive", 0)
	if late.Observed != finding.Breaks || late.Anomalies[finding.Overlaps] == 0 || late.Witness == nil || late.Witness.Kind == "" {
		t.Errorf("naive: it %s: %v, with the witness %+v", late.Observed, late.Anomalies, late.Witness)
	}
}

// The program of a lock in Go explores it, as one of the catalogue is explored.
func TestExplore(t *testing.T) {
	testkit.Servers(t)
	found, err := lockjudge.Explore(t.Context(), []string{buildTemplate(t)}, lockjudge.Exploration{
		Name: "mine", Buyers: 2, Budget: explore.Budget{explore.Preemption: 1, explore.Expiry: 1}, Most: 2,
	})
	fail.NowIf(t, err)
	if r := found.Result; !r.Exhausted || r.Diverged > 0 {
		t.Errorf("everything was tried: %v, diverged %d", r.Exhausted, r.Diverged)
	}
	shortest := map[finding.Kind]string{}
	for _, f := range found.Result.Found {
		shortest[f.Kind] = f.Schedule.String()
	}
	fail.Unequal(t, shortest[finding.Overlaps], "mine~2~s1-q1-r1-t-s2-q2-r2", "two holders")
	fail.Unequal(t, shortest[finding.StaleWrites], "mine~2~s1-q1-r1-t-s2-q2-r2-w2-q2-r2-q2-r2-w1", "a stale write")
	fail.Unequal(t, len(found.Told), 7, "sentences")
}
