package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/voucher"
)

func experiment(id, partner string, expect finding.Verdict, about ...finding.Kind) Experiment {
	return Experiment{
		ID: id, Partner: partner, Expect: expect, About: about,
		Group: "g", Title: "t", Hypothesis: "h", Arrangement: "a", Why: "w", Seen: "s", Cure: "c",
		Setup: Setup{Policy: voucher.DefaultPolicy()}, Scene: func(*Play, Setup) {},
	}
}

func TestVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		expect   finding.Verdict
		about    []finding.Kind
		found    map[finding.Kind]int
		observed finding.Verdict
		expected bool
	}{
		"breaks as it was to":               {finding.Breaks, []finding.Kind{finding.Oversold}, map[finding.Kind]int{finding.Oversold: 1}, finding.Breaks, true},
		"was to break, and holds":           {finding.Breaks, []finding.Kind{finding.Oversold}, nil, finding.Holds, false},
		"breaks in another way":             {finding.Breaks, []finding.Kind{finding.Oversold, finding.Overlaps}, map[finding.Kind]int{finding.Overlaps: 1}, finding.Breaks, false},
		"breaks in a way that says nothing": {finding.Breaks, []finding.Kind{finding.Oversold}, map[finding.Kind]int{finding.Overlaps: 1}, finding.Holds, false},
		"holds as it was to":                {finding.Holds, []finding.Kind{finding.Oversold}, map[finding.Kind]int{finding.Overlaps: 1}, finding.Holds, true},
		"was to hold, and breaks":           {finding.Holds, []finding.Kind{finding.Oversold}, map[finding.Kind]int{finding.Oversold: 1}, finding.Breaks, false},
		"holds against every kind":          {finding.Holds, nil, nil, finding.Holds, true},
		"breaks in any way":                 {finding.Holds, nil, map[finding.Kind]int{finding.NeedlessWaits: 1}, finding.Breaks, false},
	} {
		e := experiment("a", "b", c.expect, c.about...)
		p := &Play{experiment: &e, result: finding.Result{Anomalies: none()}}
		for kind, n := range c.found {
			p.Found(kind, n)
		}
		if r := p.verdict(); r.Observed != c.observed || r.AsExpected != c.expected {
			t.Errorf("%s: %s, as expected %v; want %s, %v", name, r.Observed, r.AsExpected, c.observed, c.expected)
		}
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
		{of(finding.Oversold, ""), "", 1}, // how it was prevented, before what does not matter
		{of(finding.StuckKeys, finding.Oversold), finding.Oversold, 1},
	} {
		got, more := pick(c.proofs, about)
		if got == nil || got.Kind != c.want || len(more) != c.more {
			t.Errorf("of %v: %v and %d more, want %q and %d", c.proofs, got, len(more), c.want, c.more)
		}
	}
	if got, more := pick(nil, about); got != nil || more != nil {
		t.Errorf("of nothing: %v, %v", got, more)
	}
}

func TestChoose(t *testing.T) {
	set := Set{
		experiment("naive-release", "uuid-release", finding.Breaks, finding.WrongReleases),
		experiment("uuid-release", "naive-release", finding.Holds, finding.WrongReleases),
		experiment("no-lock", "uuid-release", finding.Breaks, finding.Oversold),
	}
	if err := set.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ ids, want []string }{
		{[]string{"all"}, []string{"naive-release", "uuid-release", "no-lock"}},
		{[]string{"no-lock", "naive-release", "no-lock"}, []string{"naive-release", "no-lock"}},
		{[]string{"no-lock", "all"}, []string{"naive-release", "uuid-release", "no-lock"}},
	} {
		chosen, err := set.Choose(c.ids)
		var got []string
		for _, e := range chosen {
			got = append(got, e.ID)
		}
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("Choose(%v) = %v, %v; want %v", c.ids, got, err, c.want)
		}
	}
	_, err := set.Choose([]string{"naive-relaese", "all"})
	if !errors.Is(err, ErrNoExperiment) || !strings.Contains(err.Error(), "perhaps naive-release") {
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
		`is to break, and does not say how`:            func(s Set) Set { s[0].About = nil; return s },
		`does not say what is seen`:                    func(s Set) Set { s[0].Cure = ""; return s },
		`expects "perhaps"`:                            func(s Set) Set { s[0].Expect = "perhaps"; return s },
		`its partner: lab: no such experiment: "gone"`: func(s Set) Set { s[1].Partner = "gone"; return s },
		`is to come to the same verdict`:               func(s Set) Set { s[1].Expect = finding.Breaks; return s },
		`two experiments are called "weak"`:            func(s Set) Set { return append(s, s[0]) },
		`unknown`:                                      func(s Set) Set { s[0].Setup.Policy.Lock = "glue"; return s },
		`has no scene`:                                 func(s Set) Set { s[0].Scene = nil; return s },
	} {
		if err := spoil(good()).Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want %q in it", err, want)
		}
	}
}
