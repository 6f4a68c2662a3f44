package explore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lock"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// run explores a lock with a budget until everything within it was tried.
func run(t *testing.T, name string, b Budget) Result {
	t.Helper()
	r, err := Run(t.Context(), Config{Lock: name, Budget: b})
	fail.NowIf(t, err)
	if !r.Exhausted || r.Diverged > 0 {
		t.Errorf("%s: %d executions diverged; everything was tried: %v", name, r.Diverged, r.Exhausted)
	}
	return r
}

// shortest are the schedules of a result, by kind.
func shortest(r Result) map[finding.Kind]string {
	all := map[finding.Kind]string{}
	for _, f := range r.Found {
		all[f.Kind] = f.Schedule.String()
	}
	return all
}

// The known failures of the weak locks are found, each by its shortest schedule.
func TestShortestCounterexamples(t *testing.T) {
	expired := Budget{Preemption: 2, Expiry: 1}
	for _, c := range []struct {
		lock   string
		budget Budget
		kind   finding.Kind
		want   string
	}{
		{"naive", expired, finding.Overlaps, "naive~2~s1-q1-r1-t-s2-q2-r2"},
		{"naive", expired, finding.WrongReleases, "naive~2~s1-q1-r1-t-s2-q2-r2-w1-q1"},
		{"naive", expired, finding.LostUpdates, "naive~2~s1-q1-r1-t-s2-q2-r2-w2-q2-r2-w1"},
		{"uuid", expired, finding.WrongReleases, "uuid~2~s1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1"},           // between GET and DEL
		{"thread-id", expired, finding.WrongReleases, "thread-id~2~s1-q1-r1-t-s2-q2-r2-w1-q1-r1-q1"}, // both processes store the same value
		{"lua", expired, finding.StaleWrites, "lua~2~s1-q1-r1-t-s2-q2-r2-w2-q2-r2-w1"},
		{"setnx", Budget{Killing: 1}, finding.StuckKeys, "setnx~2~s1-k1"},
		{"setnx-expire", Budget{Killing: 1}, finding.StuckKeys, "setnx-expire~2~s1-k1"}, // between SETNX and EXPIRE
		{"uuid-wrong-key", Budget{}, finding.LockedOut, "uuid-wrong-key~2~s1-q1-r1-w1-q1-r1-s2"},
	} {
		t.Run(c.lock+" "+string(c.kind), func(t *testing.T) {
			r, err := Run(t.Context(), Config{Lock: c.lock, Budget: c.budget, Until: c.kind})
			fail.NowIf(t, err)
			fail.Unequal(t, shortest(r)[c.kind], c.want, "schedule")
		})
	}
}

// late is what the contract of [lock.Locker] says of a command that the server carries out after the clean-up: what it
// takes stays for its lease.
var late = map[finding.Kind]string{finding.LockedOut: "~2~s1-t-q1.2-r1-w1-q1.2-r1-q1.2-q1-r1-s2"}

// What a lock promises, it keeps in every schedule within a budget. The soak has larger ones.
func TestEverySchedule(t *testing.T) {
	for name, b := range map[string]Budget{
		"lua": {Preemption: 2}, "native": {Pausing: 1}, "reentrant": {Killing: 1}, "fair": {Cutting: 1}, "multi": {Killing: 1},
		"red": {Restarting: 1}, // one of three
	} {
		holds(t, name, b, nil)
	}
}

// TestSoakEverySchedule has larger budgets, with all adversities that do not take the lease away. Those of lua are
// tried to their end; each of the others has a minute: for every schedule with one adversity, and as many with two as
// it comes to.
func TestSoakEverySchedule(t *testing.T) {
	testkit.Soak(t)
	for _, a := range []Adversity{Pausing, Killing, Cutting} {
		b := Budget{Preemption: 2}
		b[a] = 1
		holds(t, "lua", b, nil)
	}
	for _, name := range []string{"reentrant", "fair", "fenced", "rw"} {
		holdsForAMinute(t, name, Budget{Preemption: 1, Pausing: 1}, late)
		holdsForAMinute(t, name, Budget{Killing: 1, Cutting: 1}, nil)
	}
	holdsForAMinute(t, "native", Budget{Preemption: 1, Pausing: 1, Killing: 1}, nil)
	holdsForAMinute(t, "multi", Budget{Killing: 1, Cutting: 1}, nil)
	holdsForAMinute(t, "red", Budget{Killing: 1, Restarting: 1}, nil)
}

// holds explores a lock and fails the test if it finds anything but the known anomalies.
func holds(t *testing.T, name string, b Budget, known map[finding.Kind]string) {
	t.Run(fmt.Sprint(name, " ", b), func(t *testing.T) { foundOnly(t, run(t, name, b), known) })
}

// holdsForAMinute does so in bounded time, and says what it has covered.
func holdsForAMinute(t *testing.T, name string, b Budget, known map[finding.Kind]string) {
	t.Run(fmt.Sprint(name, " ", b), func(t *testing.T) {
		r, err := Run(t.Context(), Config{Lock: name, Budget: b, For: time.Minute})
		fail.NowIf(t, err)
		t.Logf("every schedule with at most %d of %s: %d executions, %d states", r.Complete, b, r.Executions, r.States)
		if r.Complete < 1 || r.Diverged > 0 {
			t.Errorf("%d executions diverged; all schedules with at most %d adversities were tried", r.Diverged, r.Complete)
		}
		foundOnly(t, r, known)
	})
}

func foundOnly(t *testing.T, r Result, known map[finding.Kind]string) {
	t.Helper()
	found := shortest(r)
	for kind, schedule := range known {
		fail.Unequal(t, found[kind], r.Lock+schedule, string(kind))
		delete(found, kind)
	}
	if len(found) > 0 {
		t.Error(found)
	}
}

// Two runs find the same, with the same number of executions.
func TestTheSameTwice(t *testing.T) {
	for _, name := range []string{"thread-id", "reentrant"} {
		b := Budget{Expiry: 1, Killing: 1}
		first, second := run(t, name, b), run(t, name, b)
		fail.Unequal(t, second.Executions, first.Executions, name+" executions")
		fail.Unequal(t, second.States, first.States, name+" states")
		if !maps.Equal(shortest(first), shortest(second)) {
			t.Errorf("%s: %v, then %v", name, shortest(first), shortest(second))
		}
	}
}

// Sampling finds what the search had no time for, shrinks it to the shortest schedule, and does the same twice.
func TestSampling(t *testing.T) {
	c := Config{Lock: "uuid", Budget: Budget{Preemption: 2, Expiry: 1}, For: 1, Sample: 100, Seed: 7, Until: finding.WrongReleases}
	first, err := Run(t.Context(), c)
	fail.NowIf(t, err)
	fail.Unequal(t, shortest(first)[finding.WrongReleases], "uuid~2~s1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1", "wrong release")
	fail.Unequal(t, shortest(first)[finding.Overlaps], "uuid~2~s1-q1-r1-t-s2-q2-r2", "two holders")
	for _, f := range first.Found {
		if !f.Sampled || !f.Spent.within(c.Budget) {
			t.Errorf("%s: sampled %v, %s", f.Schedule, f.Sampled, f.Spent)
		}
	}
	if a := first.Sampled; a.Executions >= c.Sample || a.Adversities != 2 || a.Chance <= 0 || a.Chance >= 1 {
		t.Errorf("sampled: %+v", *a)
	}
	second, err := Run(t.Context(), c)
	fail.NowIf(t, err)
	fail.Unequal(t, fmt.Sprint(*second.Sampled), fmt.Sprint(*first.Sampled), "sampled")
	if !maps.Equal(shortest(first), shortest(second)) || first.Diverged+second.Diverged > 0 {
		t.Errorf("%v, then %v", shortest(first), shortest(second))
	}
	whole, err := Run(t.Context(), Config{Lock: "setnx", Budget: Budget{Killing: 1}, Sample: 1})
	fail.NowIf(t, err)
	if whole.Sampled != nil {
		t.Errorf("sampled after everything was tried: %+v", *whole.Sampled)
	}
}

// Steps that a counterexample does not need are left out.
func TestShrink(t *testing.T) {
	config, err := Config{Lock: "uuid", Budget: Budget{Preemption: 3, Expiry: 1, Pausing: 1}}.withDefaults()
	fail.NowIf(t, err)
	padded, err := ParseSchedule("uuid~2~s1-z1-g1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1-r1-w2")
	fail.NowIf(t, err)
	s := search{config: config}
	c := candidate{kind: finding.WrongReleases, steps: padded.Steps}
	fail.NowIf(t, s.shrink(t.Context(), &c))
	fail.Unequal(t, Schedule{"uuid", 2, c.steps}.String(), "uuid~2~s1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1", "schedule")
	fail.Unequal(t, c.spent, Budget{Preemption: 2, Expiry: 1}, "spent")
	fail.Unequal(t, s.diverged, 0, "diverged")
}

// One node has not granted the lock to the holder, and another restarts empty while it is at work: two holders. The
// soak searches for it.
func TestRedWithARestart(t *testing.T) {
	s, err := ParseSchedule(redBroken)
	fail.NowIf(t, err)
	p, err := Play(t.Context(), Config{}, s)
	fail.NowIf(t, err)
	fail.Unequal(t, fmt.Sprint(p.Found), fmt.Sprint([]Violation{{finding.Overlaps, len(s.Steps)}}), "found")
	fail.Unequal(t, p.Spent, Budget{Preemption: 1, Restarting: 1}, "spent")
}

// TestSoakRedWithARestart finds such a schedule by sampling.
func TestSoakRedWithARestart(t *testing.T) {
	testkit.Soak(t)
	r, err := Run(t.Context(), Config{Lock: "red", Budget: Budget{Preemption: 2, Restarting: 2}, Most: 3, For: 1, Sample: 600, Seed: 1})
	fail.NowIf(t, err)
	fail.Unequal(t, shortest(r)[finding.Overlaps], "red~2~s1-q1-q1-r1-r1-e2-t-s2-q2-q2-q2-r2-r2-r2", "schedule")
}

const redBroken = "red~2~s1-q1-q1-r1-r1-t-e1-s2-q2-q2-q2-r2-r2-r2"

// A played schedule shows what was found, with a picture, and what could come next.
func TestPlay(t *testing.T) {
	s, err := ParseSchedule("naive~2~s1-q1-r1-t-s2-q2-r2-w1-q1")
	fail.NowIf(t, err)
	p, err := Play(t.Context(), Config{Budget: DefaultBudget()}, s)
	fail.NowIf(t, err)
	kinds := map[finding.Kind]int{}
	for _, f := range p.Found {
		kinds[f.Kind] = f.Step
	}
	fail.Unequal(t, kinds[finding.Overlaps], 7, "step of the overlap")
	fail.Unequal(t, kinds[finding.WrongReleases], 9, "step of the wrong release")
	fail.Unequal(t, fmt.Sprint(p.Spent), "2 preemptions, 1 expiry", "spent")
	fail.Unequal(t, fmt.Sprint(p.Steps[3].Says), "Time goes on by 2s, until a key ends", "step 4")
	if p.Picture == nil || len(p.Proofs) == 0 || !slices.ContainsFunc(p.Next, func(c Choice) bool { return c.Step.String() == "r1" }) {
		t.Errorf("pictures: %v, %d proofs; next: %v", p.Picture != nil, len(p.Proofs), p.Next)
	}
}

func TestWhatCannotBeExplored(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   error
	}{
		{Config{Lock: "zk-queue"}, ErrUnsupported},
		{Config{Lock: "nonsense"}, lock.ErrUnknown},
	} {
		if _, err := Run(t.Context(), c.config); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.config.Lock, err)
		}
	}
	if _, err := Run(t.Context(), Config{Lock: "naive", Buyers: MaxBuyers + 1}); err == nil {
		t.Error("too many buyers")
	}
	s, err := ParseSchedule("naive~2~s1-q1-w1")
	fail.NowIf(t, err)
	if _, err := Play(t.Context(), Config{}, s); !errors.Is(err, ErrSchedule) {
		t.Errorf("a step that is not possible: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Config{Lock: "naive"}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestParseSchedule(t *testing.T) {
	for _, text := range []string{"", "naive", "naive~2", "~2~s1", "naive~9~s1", "naive~x~s1", "naive~2~y1", "naive~2~s", "naive~2~s0", "naive~2~q1.x", "naive~2~s1--q1"} {
		if s, err := ParseSchedule(text); !errors.Is(err, ErrSchedule) {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

// A schedule's text is what it was read from.
func FuzzSchedule(f *testing.F) {
	f.Add("red~3~s1-q1.2-r1-t-z1-g1-k2-x1.3-e2-j1-w1")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSchedule(text)
		if err != nil {
			return
		}
		again, err := ParseSchedule(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q: %q, then %q, %v", text, s, again, err)
		}
	})
}
