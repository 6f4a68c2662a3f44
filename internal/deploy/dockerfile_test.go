package deploy_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(text, -1)[1:]
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one to build and one to run", len(stages))
	}
	build, final := stages[0], stages[1]

	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	if version == nil || !strings.HasPrefix(build, "golang:"+version[1]+".") {
		t.Errorf("the build stage is not of the Go that go.mod names, %v", version)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "--mount=type=cache"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build stage has no %s", want)
		}
	}
	for _, want := range []string{"\nUSER nonroot", "\nHEALTHCHECK ", `"healthcheck"]`, "\nENTRYPOINT [", "\nENV SECKILL_ADDR=0.0.0.0:8080\nEXPOSE 8080\n"} {
		if !strings.Contains(final, want) {
			t.Errorf("the final stage has no %q", strings.TrimSpace(want))
		}
	}
	// Version and commit come from the caller, for the binaries and for the labels.
	for _, arg := range []string{"version", "commit"} {
		if name := strings.ToUpper(arg); !strings.Contains(build, "\nARG "+name+"\n") || !strings.Contains(build, "-X seckill/internal/buildinfo."+arg+"=${"+name+"}") {
			t.Errorf("the binaries are not told their %s", arg)
		}
	}
	for label, value := range map[string]string{
		"title": "seckill", "description": "", "licenses": "MIT", "version": "${VERSION}", "revision": "${COMMIT}", "created": "${CREATED}",
		"base.name": strings.Fields(final)[0],
	} {
		if !strings.Contains(final, "org.opencontainers.image."+label+`="`+value) {
			t.Errorf("the image has no label %s=%q", label, value)
		}
		if arg := strings.Trim(value, "${}"); strings.HasPrefix(value, "$") && !strings.Contains(final, "\nARG "+arg+"\n") {
			t.Errorf("the label %s is empty: the final stage has no ARG %s", label, arg)
		}
	}
	if strings.Contains(final, "\nRUN ") {
		t.Error("the final stage runs a command, and has no shell")
	}
	if secret := regexp.MustCompile(`(?mi)^(ARG|ENV)\b.*(SECRET|TOKEN|PASSWORD|DSN)`).FindString(text); secret != "" {
		t.Errorf("an image keeps what it is told for ever: %q", secret)
	}
}

// The build context contains everything that the binaries are made of.
func TestBuildContextIsComplete(t *testing.T) {
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

// The build context must contain neither secrets nor the git history.
func TestDockerignore(t *testing.T) {
	lines := strings.Split(read(t, ".dockerignore"), "\n")
	for _, want := range []string{".git", ".env", ".env.*", "secrets"} {
		found := false
		for _, line := range lines {
			found = found || line == want
		}
		if !found {
			t.Errorf("%s would be sent to the builder", want)
		}
	}
}
