package deploy_test

import (
	"regexp"
	"strings"
	"testing"

	"seckill/internal/buildinfo"
)

// One version: what `api -version` and `lab -version` print is the version of the image and of every manifest, and
// CHANGELOG.md says what it has.
func TestVersionIsOne(t *testing.T) {
	for file, pattern := range map[string]string{
		"Dockerfile":                     `image\.version="([^"]*)"`,
		"Makefile":                       `-t seckill:(\S+)`,
		"docker-compose.yml":             `SECKILL_IMAGE:-seckill:([^}]*)\}`,
		".env.example":                   `SECKILL_IMAGE=seckill:(\S+)`,
		"deploy/kubernetes/seckill.yaml": `image: seckill:(\S+)`,
		"CHANGELOG.md":                   `(?m)^## \[(\d[^\]]*)\]`,
	} {
		found := regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, file), -1)
		if len(found) == 0 {
			t.Errorf("%s names no version: want %s", file, pattern)
		}
		if file == "CHANGELOG.md" && len(found) > 1 {
			found = found[:1] // the newest stands first
		}
		for _, version := range found {
			if version[1] != buildinfo.Version {
				t.Errorf("%s: version %s, want %s as in internal/buildinfo", file, version[1], buildinfo.Version)
			}
		}
	}
}

// The workflow runs the three tiers, the linters and .ci/run, by targets that the Makefile has.
func TestWorkflow(t *testing.T) {
	workflow, makefile := read(t, ".github/workflows/ci.yml"), read(t, "Makefile")
	for _, command := range []string{"go test ./...", "make test", "make lint", "make soak", ".ci/run"} {
		if !regexp.MustCompile(`(?m)^\s*- run: (sudo -E )?` + regexp.QuoteMeta(command) + `$`).MatchString(workflow) {
			t.Errorf(".github/workflows/ci.yml does not run %q", command)
		}
		if target, ok := strings.CutPrefix(command, "make "); ok && !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
}
