// Package experiments defines every experiment of the laboratory: each weak mechanism
// beside the one that fixes it, in the same scenario.
//
// The experiments about one failure are a [comparison]: a scenario, the servers that it
// needs, and the setups that are compared in it. What people read about them (titles,
// hypotheses, explanations) is in text/*.txt, one file for each comparison; see [parse].
package experiments

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

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
		connections(), pauses(), failovers(), quorums(), redlocks(), herds(), fairness(), ids(), lifecycles(), stocks(), rooms(),
	)
}

// comparison is one failure: the experiments about it, which share a scenario.
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

// setupCase is an experiment: the scenario of its comparison with one setup.
type setupCase struct {
	id    string
	setup lab.Setup
	// breaks or holds are the kinds of anomaly that decide, and say which verdict is
	// expected. Where the experiment is expected to break, the first kind must be seen.
	breaks, holds []finding.Kind
	// partner is the experiment that comes to the other verdict. Default: the first
	// case of the comparison that is expected to.
	partner string
	// situation is what the setup's times bring about, unless the machine is busy; nil: nothing depends on that.
	situation *lab.Situation
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
		e.Stretches, e.Situation = c.stretches, one.situation
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

//go:embed text/*.txt text/zh/*.txt
var textFiles embed.FS

// readText reads the text of a comparison, in both languages: its heading, and the texts of its experiments.
func readText(name string) (group string, texts []lab.Experiment, err error) {
	english, err := textFiles.ReadFile("text/" + name + ".txt")
	if err != nil {
		return "", nil, err
	}
	if group, texts, err = parse(string(english)); err != nil {
		return "", nil, err
	}
	chinese, err := textFiles.ReadFile("text/zh/" + name + ".txt")
	if err != nil {
		return "", nil, err
	}
	inChinese, theirs, err := parse(string(chinese))
	if err != nil {
		return "", nil, fmt.Errorf("in Chinese: %w", err)
	}
	if len(theirs) != len(texts) {
		return "", nil, fmt.Errorf("%d texts in English and %d in Chinese", len(texts), len(theirs))
	}
	for i := range texts {
		if texts[i].ID != theirs[i].ID {
			return "", nil, fmt.Errorf("the Chinese text of %q is where that of %q belongs", theirs[i].ID, texts[i].ID)
		}
		theirs[i].Group = inChinese
		texts[i].Chinese = theirs[i].English()
	}
	return group, texts, nil
}

// parse reads a text file:
//
//	# the heading of the comparison
//
//	## the id of an experiment
//	Title: a text, which may
//	  continue on indented lines
//	Source: NAME: the heading of a section of the document NAME, as in [lab.Documents]
//
// The fields are those of [lab.Experiment]. Source may be repeated. Page stands where there is no source. Report,
// which may be repeated, is OWNER/NAME#NUMBER on GitHub. K6 may be missing. Seen and Cure are for experiments that break.
// [lab.Set.Validate] finds what is missing. The Chinese text has the same fields without Source, Page, Report and K6,
// which are of both languages.
func parse(text string) (group string, texts []lab.Experiment, err error) {
	for line := range strings.Lines(unfold(text)) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "# "); ok && group == "" {
			group = heading
			continue
		}
		if id, ok := strings.CutPrefix(line, "## "); ok {
			texts = append(texts, lab.Experiment{ID: id})
			continue
		}
		if line == "" {
			continue
		}
		if len(texts) == 0 {
			return "", nil, fmt.Errorf("%q is before the first experiment", line)
		}
		if e := &texts[len(texts)-1]; !setField(e, line) {
			return "", nil, fmt.Errorf("%s: %q is no field, or is there twice", e.ID, line)
		}
	}
	return group, texts, nil
}

// unfold joins the lines of each field. A line break is a space, but not where Chinese has none.
func unfold(text string) string {
	lines := strings.Split(text, "\n  ")
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			before, _ := utf8.DecodeLastRuneInString(lines[i-1])
			after, _ := utf8.DecodeRuneInString(line)
			inChinese := unicode.Is(unicode.Han, before) && unicode.Is(unicode.Han, after)
			if !inChinese && !chinesePunctuation(before) && !chinesePunctuation(after) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

func chinesePunctuation(r rune) bool {
	return strings.ContainsRune("，。；：？！、（）“”", r)
}

// setField reports false for a line that is no field, or one that the experiment has already.
func setField(e *lab.Experiment, line string) bool {
	name, value, _ := strings.Cut(line, ": ")
	switch name {
	case "Source":
		document, section, ok := strings.Cut(value, ": ")
		e.Sources = append(e.Sources, lab.Source{Document: document, Section: section})
		return ok
	case "Report":
		repository, number, ok := strings.Cut(value, "#")
		n, err := strconv.Atoi(number)
		e.Reports = append(e.Reports, lab.PublicReport{Repository: repository, Number: n})
		return ok && err == nil && strings.Count(repository, "/") == 1
	case "K6":
		once := e.K6 == nil
		e.K6 = strings.Fields(value)
		return once
	}
	field, ok := map[string]*string{
		"Title": &e.Title, "Question": &e.Question, "Hypothesis": &e.Hypothesis, "Arrangement": &e.Arrangement,
		"Page": &e.Page, "Why": &e.Why, "Seen": &e.Seen, "Cure": &e.Cure,
	}[name]
	if !ok || *field != "" || value == "" {
		return false
	}
	*field = value
	return true
}
