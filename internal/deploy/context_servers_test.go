package deploy_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"seckill/internal/testkit"
)

// The build context contains everything that the binaries are made of.
func TestBuildContextIsComplete(t *testing.T) {
	testkit.Servers(t)
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, ".dockerignore")))
	if err != nil {
		t.Fatal(err)
	}
	ignored, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-json=Dir,Standard,Module,GoFiles,EmbedFiles", "./cmd/api", "./cmd/lab")
	list.Dir = abs(t, ".")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{"go.mod", "go.sum"}
	for packages := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			Dir                 string
			Standard            bool
			Module              struct{ Main bool }
			GoFiles, EmbedFiles []string
		}
		if err := packages.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Standard || !p.Module.Main {
			continue
		}
		folder, err := filepath.Rel(abs(t, "."), p.Dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range append(p.GoFiles, p.EmbedFiles...) {
			needed = append(needed, filepath.Join(folder, file))
		}
	}
	if len(needed) < 100 {
		t.Fatalf("only %d files found", len(needed))
	}
	for _, file := range needed {
		if left, err := ignored.MatchesOrParentMatches(file); err != nil || left {
			t.Errorf(".dockerignore leaves out %s, which the binaries need (%v)", file, err)
		}
	}
}
