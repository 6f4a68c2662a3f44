package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func experiment(id, partner string, expect finding.Verdict, about ...finding.Kind) Experiment {
	return Experiment{
		ID: id, Partner: partner, Expect: expect, About: about,
		Group: "g", Title: "t", Question: "q?", Hypothesis: "h", Arrangement: "a", Why: "w", Seen: "s", Cure: "c",
		Setup: Setup{Policy: voucher.DefaultPolicy()}, Scenario: func(*Trial, Setup) {},
	}
}

// A verdict "holds" needs somebody to have looked for the anomaly.
func TestVerdict(t *testing.T) {
	oversold, both := []finding.Kind{finding.Oversold}, []finding.Kind{finding.Oversold, finding.StuckKeys}
	one := func(kind finding.Kind) map[finding.Kind]int { return map[finding.Kind]int{kind: 1} }
	unseen := everyKind()
	for name, c := range map[string]struct {
		expect   finding.Verdict
		about    []finding.Kind
		looked   []finding.Kind
		found    map[finding.Kind]int
		observed finding.Verdict
		expected bool
		missing  string
	}{
		"breaks as it was to":     {finding.Breaks, oversold, unseen, one(finding.Oversold), finding.Breaks, true, ""},
		"was to break, and holds": {finding.Breaks, oversold, unseen, nil, finding.Holds, false, ""},
		"breaks in another way": {
			finding.Breaks, []finding.Kind{finding.Oversold, finding.Overlaps}, unseen, one(finding.Overlaps), finding.Breaks, false, "",
		},
		"breaks in a way that says nothing":     {finding.Breaks, oversold, unseen, one(finding.Overlaps), finding.Holds, false, ""},
		"holds as it was to":                    {finding.Holds, oversold, unseen, one(finding.Overlaps), finding.Holds, true, ""},
		"was to hold, and breaks":               {finding.Holds, oversold, unseen, one(finding.Oversold), finding.Breaks, false, ""},
		"holds against every kind":              {finding.Holds, nil, unseen, nil, finding.Holds, true, ""},
		"breaks in any way":                     {finding.Holds, nil, unseen, one(finding.NeedlessWaits), finding.Breaks, false, ""},
		"one was not looked for":                {finding.Holds, both, oversold, nil, "", false, "stuck_keys"},
		"it breaks without a look at the other": {finding.Holds, both, nil, one(finding.Oversold), finding.Breaks, false, ""},
		"every kind, and one was looked for":    {finding.Holds, nil, oversold, nil, "", false, "overlaps"},
	} {
		e := experiment("a", "b", c.expect, c.about...)
		tr := newTrial(&e, finding.Result{})
		for _, kind := range c.looked {
			tr.Found(kind, 0)
		}
		for kind, n := range c.found {
			tr.Found(kind, n)
		}
		r := tr.verdict()
		if r.Observed != c.observed || r.AsExpected != c.expected || (r.Failed != "") != (c.missing != "") || !strings.Contains(r.Failed, c.missing) {
			t.Errorf("%s: %q, as expected %v, failed %q; want %+v", name, r.Observed, r.AsExpected, r.Failed, c)
		}
	}
}

func TestShownAreOneOfEachKind(t *testing.T) {
	proofs := []finding.Witness{{Summary: i18n.Plain("how")}, {Kind: finding.StuckKeys, Summary: i18n.Plain("the scenario's")}, {Summary: i18n.Plain("how, again")}, {Kind: finding.StuckKeys}, {Kind: finding.Overlaps}}
	for observed, want := range map[finding.Verdict][]string{
		finding.Breaks: {"the scenario's", ""},
		finding.Holds:  {"how", "the scenario's", ""},
	} {
		var got []string
		for _, w := range firstOfEachKind(proofs, observed) {
			got = append(got, w.Summary.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", observed, got, want)
		}
	}
}

func TestCommandRepeatsTheRun(t *testing.T) {
	usual := testbed.Defaults()
	other := testbed.Options{Seed: 7, Instances: 3, Duration: 1500 * time.Millisecond, Embedded: true}
	for want, o := range map[string]testbed.Options{
		"": usual, "--seed 7 --instances 3 --duration 1.5s --embedded": other,
	} {
		fail.Unequal(t, strings.Join(nonDefaultFlags(o), " "), want, "flags of %+v are", o)
	}
}

func opened(t *testing.T, o testbed.Options) *testbed.Environment {
	t.Helper()
	env, err := testbed.Open(t.Context(), o)
	fail.NowIf(t, err)
	t.Cleanup(func() {
		fail.If(t, env.Close())
	})
	return env
}

// A swap runs with the partner's setup on the partner's servers, and says so.
func TestSwapSaysWithWhat(t *testing.T) {
	env := opened(t, testbed.Options{Embedded: true, Seed: 3})
	set := Set{
		experiment("weak", "sound", finding.Breaks, finding.Oversold),
		experiment("sound", "weak", finding.Holds, finding.Oversold),
	}
	set[0].Needs = []testbed.Server{testbed.ZooKeeper} // which an embedded environment does not have
	set[1].Setup.Policy.Lock = "local"
	set[0].Scenario = func(t *Trial, setup Setup) { t.Found(finding.Oversold, len(setup.Policy.Lock)-len("local")) }
	bench, err := New(env, set)
	fail.NowIf(t, err)
	if r := bench.Run(t.Context(), &set[0]); r.Skipped == "" || r.SetupOf != "" {
		t.Errorf("%+v", r)
	}
	r := bench.Swap(t.Context(), &set[0])
	const command = "go run ./cmd/lab run weak --seed 3 --embedded --swap"
	if r.Observed != finding.Holds || r.SetupOf != "sound" || r.Lock != "local" || r.Command != command {
		t.Errorf("%+v", r)
	}
}

// A run without a verdict is repeated where the machine was late, and nowhere else. A verdict stands; that it is
// unexpected and that the machine was late is said together.
func TestLateMachine(t *testing.T) {
	const late, inTime = 250 * time.Millisecond, time.Millisecond
	for name, c := range map[string]struct {
		stalled              time.Duration
		failing              int // attempts
		found                int
		attempts             int
		failed, notice, told bool
	}{
		"no verdict, late once":      {late, 1, 1, 2, false, true, false},
		"no verdict, late each time": {late, 9, 1, maxAttempts, true, true, false},
		"no verdict, and in time":    {inTime, 1, 1, 1, true, false, false},
		"late, expected":             {late, 0, 1, 1, false, false, false},
		"late, unexpected":           {late, 0, 0, 1, false, false, true},
		"in time, unexpected":        {inTime, 0, 0, 1, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			noticed, attempts := 0, 0
			env := opened(t, testbed.Options{Notice: func(i18n.Text) { noticed++ }})
			e := experiment("a", "b", finding.Breaks, finding.Oversold)
			e.Scenario = func(t *Trial, _ Setup) {
				if attempts++; attempts <= c.failing {
					t.Fatalf("the server was late")
				}
				t.Found(finding.Oversold, c.found)
			}
			l := &Lab{env: env, watch: func() func() time.Duration { return func() time.Duration { return c.stalled } }}
			r := l.Run(t.Context(), &e)
			if attempts != c.attempts || (r.Failed != "") != c.failed || (noticed > 0) != c.notice {
				t.Errorf("%d attempts, failed %q, %d notices; want %+v", attempts, r.Failed, noticed, c)
			}
			if told := len(r.Measures) == 1 && r.Measures[0].Value == 250; told != c.told {
				t.Errorf("%s, measures %+v; want %+v", r.Observed, r.Measures, c)
			}
		})
	}
}

// Where the service cannot be built, another run comes to the same: the machine is not blamed, however late it was.
func TestNoServiceIsNotRepeated(t *testing.T) {
	noticed, attempts := 0, 0
	env := opened(t, testbed.Options{Notice: func(i18n.Text) { noticed++ }})
	e := experiment("a", "b", finding.Breaks, finding.Oversold)
	e.Scenario = func(t *Trial, _ Setup) {
		attempts++
		t.Fatalf("%w: go build: no such folder", testbed.ErrNoService)
	}
	l := &Lab{env: env, watch: func() func() time.Duration { return func() time.Duration { return time.Second } }}
	if r := l.Run(t.Context(), &e); attempts != 1 || noticed != 0 || !strings.Contains(r.Failed, "cannot be built") {
		t.Errorf("%d attempts, %d notices, %q", attempts, noticed, r.Failed)
	}
}

// A run that holds because the situation did not arise is repeated, and comes to no verdict if it never does. A run
// that breaks needs no situation, and with other numbers it need not arise.
func TestSituationThatDidNotArise(t *testing.T) {
	for name, c := range map[string]struct {
		misses, attempts int
		found            int
		changed          bool
		observed         finding.Verdict
	}{
		"it arises":                   {0, 1, 0, false, finding.Holds},
		"it arises at the second try": {1, 2, 0, false, finding.Holds},
		"it never arises":             {9, maxAttempts, 0, false, ""},
		"it breaks all the same":      {9, 1, 1, false, finding.Breaks},
		"it has other numbers":        {9, 1, 0, true, finding.Holds},
	} {
		t.Run(name, func(t *testing.T) {
			noticed, attempts := 0, 0
			env := opened(t, testbed.Options{Notice: func(i18n.Text) { noticed++ }})
			e := experiment("a", "b", finding.Holds, finding.WrongReleases)
			e.Situation = &Situation{Arose: func(*judge.History) bool { return attempts > c.misses }, Missed: i18n.Plain("no lease ended")}
			if c.changed {
				e.Changed = []finding.Change{{Name: "lease"}}
			}
			e.Scenario = func(t *Trial, _ Setup) {
				attempts++
				t.Judge(judge.Evidence{})
				t.Found(finding.WrongReleases, c.found)
			}
			l := &Lab{env: env, watch: func() func() time.Duration { return func() time.Duration { return 0 } }}
			r := l.Run(t.Context(), &e)
			if attempts != c.attempts || noticed != c.attempts-1 || r.Observed != c.observed || (r.Failed != "") != (c.observed == "") {
				t.Errorf("%d attempts, %d notices, %q, failed %q; want %+v", attempts, noticed, r.Observed, r.Failed, c)
			}
			if c.observed == "" && !strings.Contains(r.Failed, "no lease ended") {
				t.Errorf("it does not say what did not happen: %q", r.Failed)
			}
		})
	}
}

func TestWitnessIsOfTheKindThatDecides(t *testing.T) {
	of := func(kinds ...finding.Kind) (all []finding.Witness) {
		for _, k := range kinds {
			all = append(all, finding.Witness{Kind: k})
		}
		return all
	}
	about := []finding.Kind{finding.WrongReleases, finding.Overlaps}
	for _, c := range []struct {
		proofs []finding.Witness
		want   finding.Kind
		more   int
	}{
		{of(finding.Oversold, finding.Overlaps, finding.WrongReleases), finding.WrongReleases, 2},
		{of(finding.Oversold, finding.Overlaps), finding.Overlaps, 1},
		{of(finding.Oversold, ""), "", 1}, // prevention comes before kinds that do not decide
		{of(finding.StuckKeys, finding.Oversold), finding.Oversold, 1},
	} {
		got, more := mainWitness(c.proofs, about)
		if got == nil || got.Kind != c.want || len(more) != c.more {
			t.Errorf("of %v: %v and %d more, want %q and %d", c.proofs, got, len(more), c.want, c.more)
		}
	}
	if got, more := mainWitness(nil, about); got != nil || more != nil {
		t.Errorf("of nothing: %v, %v", got, more)
	}
}

func TestChoose(t *testing.T) {
	set := Set{
		experiment("naive-release", "uuid-release", finding.Breaks, finding.WrongReleases),
		experiment("uuid-release", "naive-release", finding.Holds, finding.WrongReleases),
		experiment("no-lock", "uuid-release", finding.Breaks, finding.Oversold),
	}
	fail.NowIf(t, set.Validate())
	for _, c := range []struct{ ids, want []string }{
		{[]string{"all"}, []string{"naive-release", "uuid-release", "no-lock"}},
		{[]string{"no-lock", "naive-release", "no-lock"}, []string{"no-lock", "naive-release"}},
		{[]string{"no-lock", "all"}, []string{"no-lock", "naive-release", "uuid-release"}},
	} {
		chosen, err := set.Select(c.ids)
		var got []string
		for _, e := range chosen {
			got = append(got, e.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Choose(%v) = %v, %v; want %v", c.ids, got, err, c.want)
		}
	}
	_, err := set.Select([]string{"naive-relaese", "all"})
	if !errors.Is(err, ErrUnknownExperiment) || !strings.Contains(err.Error(), "perhaps naive-release") {
		t.Errorf("Choose of a misspelt id: %v", err)
	}
}

func TestValidateNamesWhatIsWrong(t *testing.T) {
	good := func() Set {
		return Set{
			experiment("weak", "sound", finding.Breaks, finding.Oversold),
			experiment("sound", "weak", finding.Holds, finding.Oversold),
		}
	}
	for want, spoil := range map[string]func(Set) Set{
		`"weak": Title is empty`:                       func(s Set) Set { s[0].Title = ""; return s },
		`"weak": Question is empty`:                    func(s Set) Set { s[0].Question = ""; return s },
		`is to break, and does not say how`:            func(s Set) Set { s[0].About = nil; return s },
		`does not say what is seen`:                    func(s Set) Set { s[0].Cure = ""; return s },
		`expects "perhaps"`:                            func(s Set) Set { s[0].Expect = "perhaps"; return s },
		`its partner: lab: no such experiment: "gone"`: func(s Set) Set { s[1].Partner = "gone"; return s },
		`is to come to the same verdict`:               func(s Set) Set { s[1].Expect = finding.Breaks; return s },
		`two experiments are called "weak"`:            func(s Set) Set { return append(s, s[0]) },
		`unknown`:                                      func(s Set) Set { s[0].Setup.Policy.Lock = "glue"; return s },
		`has no scenario`:                              func(s Set) Set { s[0].Scenario = nil; return s },
	} {
		if err := spoil(good()).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
}
