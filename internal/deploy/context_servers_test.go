package deploy_test

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// The build context contains everything that the binaries are made of.
func TestBuildContextIsComplete(t *testing.T) {
	testkit.Servers(t)
	patterns, err := ignorefile.ReadAll(strings.NewReader(read(t, ".dockerignore")))
	fail.NowIf(t, err)
	ignored, err := patternmatcher.New(patterns)
	fail.NowIf(t, err)
	const ofThisModule = `{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}` +
		`{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", ofThisModule, "./cmd/api", "./cmd/lab")
	list.Dir = abs(t, ".")
	out, err := list.Output()
	fail.NowIf(t, err)
	needed := []string{"go.mod", "go.sum"}
	for path := range strings.FieldsSeq(string(out)) {
		file, err := filepath.Rel(list.Dir, path)
		fail.NowIf(t, err)
		needed = append(needed, file)
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
