// Package sources_test checks docs/sources.md and docs/misconceptions.md: that they have every section that an
// experiment names, judge every claim, and that their commands print what they say.
package sources_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"seckill/internal/lab/experiments"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// TestSourcesHaveEverySection: what an experiment names as its source is a section of docs/sources.md.
func TestSourcesHaveEverySection(t *testing.T) {
	documents := sections(t)
	if len(documents) != 5 {
		t.Errorf("docs/sources.md has %d documents, want 5", len(documents))
	}
	all, err := experiments.All()
	fail.NowIf(t, err)
	for _, e := range all {
		for _, s := range e.Sources {
			if !slices.Contains(documents[s.Document], s.Section) {
				t.Errorf("experiment %s: docs/sources.md has no section %q under document %s", e.ID, s.Section, s.Document)
			}
		}
	}
}

// TestSourcesJudgeEveryClaim: the rows of a document are numbered without gaps, and each says how it stands.
func TestSourcesJudgeEveryClaim(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (\d{3})-(\d+) \| .+ \| (.+) \|$`)
	judged := regexp.MustCompile(`(?i)\b(shown|measured|holds|refuted|outdated|true of|as \d{3}-\d+)\b`)
	text := read(t)
	last, ids := map[string]int{}, map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		document, number, evidence := m[1], m[2], m[3]
		last[document]++
		ids[document+"-"+number] = true
		if number != fmt.Sprint(last[document]) {
			t.Errorf("row %s-%s: want %s-%d", document, number, document, last[document])
		}
		if !judged.MatchString(evidence) {
			t.Errorf("row %s-%s does not say how the claim stands: %q", document, number, evidence)
		}
	}
	for _, reference := range regexp.MustCompile(`\b00[0-4]-\d+\b`).FindAllString(text, -1) {
		if !ids[reference] {
			t.Errorf("there is no row %s", reference)
		}
	}
	if got, want := len(ids), len(regexp.MustCompile(`(?m)^\| 00\d-`).FindAllString(text, -1)); got != want {
		t.Errorf("%d of %d lines that begin like a row are rows", got, want)
	}
}

// TestMisconceptionsStandAlone: each says what is true and what shows it, they are numbered without gaps, and
// docs/sources.md refers to each.
func TestMisconceptionsStandAlone(t *testing.T) {
	text, sources := readPage(t, "misconceptions.md"), read(t)
	_, all, _ := strings.Cut(text, "\n### ")
	beliefs := strings.Split(all, "\n### ")
	if len(beliefs) != 29 {
		t.Errorf("docs/misconceptions.md has %d misconceptions, want 29", len(beliefs))
	}
	for i, belief := range beliefs {
		name := fmt.Sprintf("C%d", i+1)
		if !strings.HasPrefix(belief, name+". ") || !strings.Contains(belief, "\n*True:* ") || !strings.Contains(belief, "\n*Shown:*") {
			t.Errorf("want %s with *True:* and *Shown:*, got %q", name, belief)
		}
		if !strings.Contains(sources, "["+name+"](misconceptions.md#") {
			t.Errorf("docs/sources.md does not refer to %s", name)
		}
	}
}

// TestSourcesNameBehaviours: what docs/sources.md says about conformance is in the suite.
func TestSourcesNameBehaviours(t *testing.T) {
	named := regexp.MustCompile("onformance ((?:`[a-z-]+`(?:, )?)+)").FindAllStringSubmatch(read(t), -1)
	if len(named) == 0 {
		t.Error("docs/sources.md names no behaviour")
	}
	for _, names := range named {
		for name := range strings.SplitSeq(names[1], ", ") {
			if !slices.Contains(locktest.Behaviours(), locktest.Behaviour(strings.Trim(name, "`"))) {
				t.Errorf("the conformance suite has no behaviour %s", name)
			}
		}
	}
}

// sections are the sections of each document, as docs/sources.md has them.
func sections(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	var document string
	for line := range strings.Lines(read(t)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "## "); ok {
			_, document, _ = strings.Cut(name, ": ")
		}
		section, ok := strings.CutPrefix(line, "### ")
		if section, _, translated := strings.Cut(section, " · "); ok && translated {
			all[document] = append(all[document], section)
		}
	}
	return all
}

func read(t *testing.T) string {
	t.Helper()
	return readPage(t, "sources.md")
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	fail.NowIf(t, err)
	return string(text)
}
