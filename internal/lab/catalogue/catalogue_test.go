package catalogue_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/lab/catalogue"
	"seckill/internal/lab/experiments"
	"seckill/internal/lab/finding"
	"seckill/internal/testkit/fail"
)

// The files are generated from the experiments.
func TestFilesAreUpToDate(t *testing.T) {
	all, err := experiments.All()
	fail.NowIf(t, err)
	for path, make := range map[string]func(lab.Set) ([]byte, error){
		catalogue.MarkdownPath: catalogue.Markdown,
		catalogue.K6Path:       catalogue.K6,
	} {
		want, err := make(all)
		fail.NowIf(t, err)
		got, err := os.ReadFile(filepath.Join("..", "..", "..", path))
		fail.NowIf(t, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the experiments say: run go run ./cmd/lab catalogue --write", path)
		}
	}
}

// A cell of a table says one thing, and refers to experiments by links only.
func TestCellsAreOneSentence(t *testing.T) {
	all, err := experiments.All()
	fail.NowIf(t, err)
	page, err := catalogue.Markdown(all)
	fail.NowIf(t, err)
	link := "\\[`[^`]*`\\]\\(#[^)]*\\)"
	rows := regexp.MustCompile("(?m)^\\| (.+) \\| "+link+", `[^`]*` \\| (.+) \\| (.+) "+link+" \\|$").FindAllStringSubmatch(string(page), -1)
	breaks := 0
	for _, e := range all {
		if e.Expect == finding.Breaks {
			breaks++
		}
	}
	fail.Unequal(t, len(rows), breaks, "rows, and experiments that break")
	for _, row := range rows {
		for _, cell := range row[1:] {
			if regexp.MustCompile(`[.;] \S.*\.$|\([a-z]+-[a-z-]+\)`).MatchString(cell) {
				t.Errorf("more than one sentence: %q", cell)
			}
		}
	}
}

// k6 gets only options that its script documents.
func TestK6OptionsAreDocumented(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "loadtest", "seckill.js"))
	fail.NowIf(t, err)
	all, err := experiments.All()
	fail.NowIf(t, err)
	for _, e := range all {
		for _, option := range e.K6 {
			name, _, _ := strings.Cut(option, "=")
			if !regexp.MustCompile(`(?m)^//.*\b` + regexp.QuoteMeta(name) + `\b`).Match(script) {
				t.Errorf("experiment %q: loadtest/seckill.js does not document the option %q", e.ID, name)
			}
		}
	}
}
