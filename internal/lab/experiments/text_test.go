package experiments

import (
	"path"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab"
)

// [All] fails if an experiment has no text, or lacks a field of it.
func TestEveryExperimentHasItsText(t *testing.T) {
	set, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range set {
		if len(e.Sources) == 0 {
			t.Errorf("%s names no document that it comes from", e.ID)
		}
		if !strings.HasSuffix(e.Question, "?") {
			t.Errorf("%s: %q is no question", e.ID, e.Question)
		}
		for _, s := range e.Sources {
			if !slices.ContainsFunc(lab.Documents(), func(d lab.Document) bool { return d.Name == s.Document }) {
				t.Errorf("%s comes from an unknown document: %+v", e.ID, s)
			}
		}
		for _, option := range e.K6 {
			if name, value, ok := strings.Cut(option, "="); !ok || name == "" || value == "" {
				t.Errorf("%s: the k6 option %q is not NAME=value", e.ID, option)
			}
		}
	}
}

func TestNoTextIsUnused(t *testing.T) {
	files, err := textFiles.ReadDir("text")
	if err != nil {
		t.Fatal(err)
	}
	var unused []string
	for _, f := range files {
		unused = append(unused, strings.TrimSuffix(f.Name(), path.Ext(f.Name())))
	}
	for _, c := range comparisons() {
		i := slices.Index(unused, c.text)
		if i < 0 {
			t.Errorf("two comparisons share the text %s, or there is none", c.text)
			continue
		}
		unused = slices.Delete(unused, i, i+1)
	}
	if len(unused) > 0 {
		t.Errorf("no comparison uses %q", unused)
	}
}

func TestParse(t *testing.T) {
	group, texts, err := parse(strings.Join([]string{
		"# Readers", "", "## first", "Title: one", "  and a half", "Source: 001: 1. The first way: SETNX",
		"K6: A=1", "  B=2", "", "## second", "Why: because", "",
	}, "\n"))
	if err != nil || group != "Readers" || len(texts) != 2 {
		t.Fatalf("%q, %+v, %v", group, texts, err)
	}
	one, other := texts[0], texts[1]
	if one.ID != "first" || one.Title != "one and a half" || !slices.Equal(one.K6, []string{"A=1", "B=2"}) ||
		!slices.Equal(one.Sources, []lab.Source{{Document: "001", Section: "1. The first way: SETNX"}}) {
		t.Errorf("%+v", one)
	}
	if other.ID != "second" || other.Why != "because" || other.Title != "" {
		t.Errorf("%+v", other)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"a text before the experiments": "# Readers\n\nTitle: one\n",
		"an unknown field":              "## first\nHeading: one\n",
		"a field that is there twice":   "## first\nTitle: one\nTitle: two\n",
		"a field without a text":        "## first\nTitle: \n",
		"a line that is no field":       "## first\nTitle: one\nand a half\n",
		"a source without a section":    "## first\nSource: 001\n",
		"two headings":                  "# Readers\n# Writers\n",
	} {
		if _, texts, err := parse(text); err == nil {
			t.Errorf("%s is accepted: %+v", name, texts)
		}
	}
}

func TestTextsBelongToTheirExperiments(t *testing.T) {
	for name, spoil := range map[string]func(*comparison){
		"an experiment without a text": func(c *comparison) { c.cases = append(c.cases, setupCase{id: "more"}) },
		"a text without an experiment": func(c *comparison) { c.cases = c.cases[:1] },
		"another experiment's text":    func(c *comparison) { c.cases[0].id = "other" },
		"no such file":                 func(c *comparison) { c.text = "none" },
	} {
		c := comparisons()[0]
		spoil(&c)
		if _, err := c.experiments(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
