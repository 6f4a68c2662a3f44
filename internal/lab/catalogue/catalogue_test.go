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
)

// The files are generated from the experiments.
func TestFilesAreUpToDate(t *testing.T) {
	all, err := experiments.All()
	if err != nil {
		t.Fatal(err)
	}
	for path, make := range map[string]func(lab.Set) ([]byte, error){
		catalogue.MarkdownPath: catalogue.Markdown,
		catalogue.K6Path:       catalogue.K6,
	} {
		want, err := make(all)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", "..", "..", path))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what the experiments say: run go run ./cmd/lab catalogue --write", path)
		}
	}
}

// k6 gets only options that its script documents.
func TestK6OptionsAreDocumented(t *testing.T) {
	script, err := os.ReadFile(filepath.Join("..", "..", "..", "loadtest", "seckill.js"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := experiments.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		for _, option := range e.K6 {
			name, _, _ := strings.Cut(option, "=")
			if !regexp.MustCompile(`(?m)^//.*\b` + regexp.QuoteMeta(name) + `\b`).Match(script) {
				t.Errorf("experiment %q: loadtest/seckill.js does not document the option %q", e.ID, name)
			}
		}
	}
}
