// Package experiments defines every experiment of the laboratory: each weak mechanism
// beside the one that fixes it, in the same scene.
//
// The experiments about one failure are a [comparison]: a scene, the servers that it
// needs, and the setups that are compared in it. What people read about them (titles,
// hypotheses, explanations) is in text/*.txt, one file for each comparison; see [parse].
package experiments

import (
	"errors"
	"fmt"
	"slices"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/testbed"
)

// All returns the experiments in the order in which they are read: from no lock at
// all to the failures of the strongest lock.
func All() (lab.Set, error) {
	var set lab.Set
	for _, c := range comparisons() {
		cases, err := c.experiments()
		if err != nil {
			return nil, fmt.Errorf("experiments: %s: %w", c.text, err)
		}
		set = append(set, cases...)
	}
	return set, set.Validate()
}

func comparisons() []comparison {
	return slices.Concat(
		sales(), names(), releases(), refusals(), deaths(), leases(), reentry(), panics(), transactions(), networks(),
		connections(), pauses(), failovers(), quorums(), redlocks(), herds(), fairness(), lives(),
	)
}

// comparison is one failure: the experiments about it, which share a scene.
type comparison struct {
	text     string // the name of its file in text/, without the suffix
	scenario lab.Scenario
	needs    []testbed.Server
	quiet    bool
	cases    []setupCase
	// parameters are the values that can be changed, of the setups that have them.
	parameters []lab.Parameter
	stretches  bool // see [lab.Experiment]
}

// setupCase is an experiment: the scene of its comparison with one setup.
type setupCase struct {
	id    string
	setup lab.Setup
	// breaks or holds are the kinds of anomaly that decide, and say which verdict is
	// expected. Where the experiment is expected to break, the first kind must be seen.
	breaks, holds []finding.Kind
	// partner is the experiment that comes to the other verdict. Default: the first
	// case of the comparison that is expected to.
	partner string
	// scenario and needs replace those of the comparison.
	scenario lab.Scenario
	needs    []testbed.Server
}

func (c setupCase) expect() finding.Verdict {
	if len(c.breaks) > 0 {
		return finding.Breaks
	}
	return finding.Holds
}

// experiments joins the cases with their texts. Every case has one, and every text a case.
func (c comparison) experiments() (lab.Set, error) {
	group, texts, err := readText(c.text)
	if err != nil {
		return nil, err
	}
	if len(texts) != len(c.cases) {
		return nil, fmt.Errorf("%d texts for %d experiments", len(texts), len(c.cases))
	}
	var set lab.Set
	for i, one := range c.cases {
		e := texts[i]
		if e.ID != one.id {
			return nil, fmt.Errorf("the text of %q is where that of %q belongs", e.ID, one.id)
		}
		e.Group, e.Quiet, e.Setup, e.Expect = group, c.quiet, one.setup, one.expect()
		e.About, e.Parameters = slices.Concat(one.breaks, one.holds), c.parameters
		e.Scenario, e.Needs, e.Partner = c.scenario, c.needs, one.partner
		e.Stretches = c.stretches
		if one.scenario != nil {
			e.Scenario = one.scenario
		}
		if one.needs != nil {
			e.Needs = one.needs
		}
		if e.Partner == "" {
			if e.Partner, err = c.partner(e.Expect.Opposite()); err != nil {
				return nil, err
			}
		}
		set = append(set, e)
	}
	return set, nil
}

// partner returns the id of the first case that is expected to come to a verdict.
func (c comparison) partner(expect finding.Verdict) (string, error) {
	i := slices.IndexFunc(c.cases, func(one setupCase) bool { return one.expect() == expect })
	if i < 0 {
		return "", errors.New("no case " + string(expect))
	}
	return c.cases[i].id, nil
}

// kinds are the kinds of anomaly that decide about an experiment.
type kinds = []finding.Kind
