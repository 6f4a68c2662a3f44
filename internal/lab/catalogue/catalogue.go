// Package catalogue writes the experiments for readers (docs/failure-catalogue.md) and for k6
// (loadtest/experiments.json).
package catalogue

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
)

// The paths of the two files, relative to the module's root.
const (
	MarkdownPath = "docs/failure-catalogue.md"
	K6Path       = "loadtest/experiments.json"
)

//go:embed catalogue.md.tmpl
var page string

// Markdown returns the catalogue.
func Markdown(set lab.Set) ([]byte, error) {
	parts := chapters(set)
	if len(parts) != len(subjects) {
		return nil, fmt.Errorf("catalogue: the chapter %q begins with %s, which is no experiment after those of the chapter before", subjects[len(parts)].name, subjects[len(parts)].first)
	}
	t, err := template.New("catalogue").Funcs(template.FuncMap{
		"cell": cell, "anchor": anchor, "about": about, "sources": sources, "k6": (*lab.Experiment).K6Command, "parameters": parameters, "sentence": sentence,
	}).Parse(page)
	if err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	var out bytes.Buffer
	if err := t.Execute(&out, struct {
		Chapters  []chapter
		Documents []lab.Document
		Kinds     []finding.Info
		Reports   []reported
	}{parts, lab.Documents(), finding.Kinds(), reports(set)}); err != nil {
		return nil, fmt.Errorf("catalogue: %w", err)
	}
	return out.Bytes(), nil
}

// chapter is a subject with its experiments, which are in groups.
type chapter struct {
	Name   string
	Set    lab.Set
	Groups []group
}

// subjects are the chapters, each with its first experiment.
var subjects = []struct{ first, name string }{
	{"no-lock", "No lock, or one that others do not see"},
	{"naive-wrong-release", "Release"},
	{"setnx-holder-killed", "A holder dies"},
	{"lua-lease-too-short", "Leases and re-entry"},
	{"release-before-commit", "Lock and transaction"},
	{"watchdog-too-short-for-network", "The network"},
	{"paused-holder", "Pauses and tokens"},
	{"primary-dies-before-replicating", "Several servers"},
	{"zk-herd", "Waiting and order"},
	{"cancel-state-not-asked", "The lifecycle of an order"},
	{"version-rush", "Taking stock"},
}

// chapters divides the set, which is in the order of the subjects.
func chapters(set lab.Set) []chapter {
	var all []chapter
	for _, e := range set {
		if n := len(all); n == 0 || n < len(subjects) && e.ID == subjects[n].first {
			all = append(all, chapter{Name: subjects[n].name})
		}
		last := &all[len(all)-1]
		last.Set = append(last.Set, e)
	}
	for i := range all {
		all[i].Groups = groups(all[i].Set)
	}
	return all
}

// group is a heading with its experiments.
type group struct {
	Name        string
	Experiments lab.Set
}

func groups(set lab.Set) []group {
	var all []group
	at := map[string]int{}
	for _, e := range set {
		i, ok := at[e.Group]
		if !ok {
			i = len(all)
			at[e.Group] = i
			all = append(all, group{Name: e.Group})
		}
		all[i].Experiments = append(all[i].Experiments, e)
	}
	return all
}

// reported is a public report, with the experiments that break as it says.
type reported struct {
	lab.PublicReport
	Experiments []lab.Experiment
}

func reports(set lab.Set) []reported {
	var all []reported
	for _, e := range set {
		if e.Expect != finding.Breaks {
			continue
		}
		for _, r := range e.Reports {
			i := slices.IndexFunc(all, func(one reported) bool { return one.PublicReport == r })
			if i < 0 {
				i = len(all)
				all = append(all, reported{PublicReport: r})
			}
			all[i].Experiments = append(all[i].Experiments, e)
		}
	}
	return all
}

// k6Experiment is an experiment as loadtest/seckill.js reads it.
type k6Experiment struct {
	Title   string            `json:"title"`
	Expect  finding.Verdict   `json:"expect"`
	About   []finding.Kind    `json:"about"`
	Options map[string]string `json:"options"`
}

// K6 returns the experiments that can be seen over HTTP, by id.
func K6(set lab.Set) ([]byte, error) {
	all := map[string]k6Experiment{}
	for _, e := range set {
		if len(e.K6) == 0 {
			continue
		}
		x := k6Experiment{Title: e.Title, Expect: e.Expect, About: e.About, Options: map[string]string{}}
		for _, option := range e.K6 {
			name, value, ok := strings.Cut(option, "=")
			if !ok {
				return nil, fmt.Errorf("catalogue: experiment %q: the k6 option %q is not NAME=value", e.ID, option)
			}
			x.Options[name] = value
		}
		all[e.ID] = x
	}
	out, err := json.MarshalIndent(all, "", "  ")
	return append(out, '\n'), err
}

// sentence returns the first statement of a text without the experiments that it refers to, for a cell of a table.
func sentence(text string) string {
	text = reference.ReplaceAllString(cell(text), "")
	text, _, _ = strings.Cut(text, ". ")
	text, _, _ = strings.Cut(text, "; ")
	return strings.TrimSuffix(text, ".") + "."
}

var reference = regexp.MustCompile(` \([a-z]+(-[a-z0-9]+)+[^)]*\)`)

// cell escapes a text for a cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// anchor is the anchor that Markdown renderers give a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			b.WriteByte('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
			b.WriteRune(r)
		}
	}
	return b.String()
}

// about names the deciding kinds of anomaly.
func about(e lab.Experiment) string {
	var names []string
	for _, info := range finding.Kinds() {
		for _, kind := range e.About {
			if kind == info.Kind {
				names = append(names, info.Title)
			}
		}
	}
	if len(names) == 0 {
		return "anomalies of every kind"
	}
	return strings.Join(names, ", ")
}

// parameters lists what can be changed, with its value and bounds.
func parameters(e lab.Experiment) string {
	var all []string
	for _, p := range e.Changeable() {
		all = append(all, fmt.Sprintf("`--%s` %s (%s)", p.Name, p.Value(e.Setup), p.Bounds))
	}
	return strings.Join(all, "; ")
}

func sources(e lab.Experiment) string {
	var all []string
	for _, s := range e.Sources {
		all = append(all, fmt.Sprintf("%s, “%s”", s.Document, s.Section))
	}
	return strings.Join(all, "; ")
}
