package deploy_test

import (
	"regexp"
	"strings"
	"testing"
)

func TestDockerfile(t *testing.T) {
	text := read(t, "Dockerfile")
	stages := regexp.MustCompile(`(?m)^FROM `).Split(text, -1)[1:]
	if len(stages) != 2 {
		t.Fatalf("%d stages, want one to build and one to run", len(stages))
	}
	build, final := stages[0], stages[1]

	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "go.mod"))
	if version == nil || !strings.HasPrefix(build, "golang:"+version[1]+" ") {
		t.Errorf("the build stage is not of the Go that go.mod names, %v", version)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "--mount=type=cache"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build stage has no %s", want)
		}
	}
	for _, want := range []string{"\nUSER nonroot", "\nHEALTHCHECK ", `"healthcheck"]`, "\nENTRYPOINT ["} {
		if !strings.Contains(final, want) {
			t.Errorf("the final stage has no %q", strings.TrimSpace(want))
		}
	}
	if strings.Contains(final, "\nRUN ") {
		t.Error("the final stage runs a command, and has no shell")
	}
	if secret := regexp.MustCompile(`(?mi)^(ARG|ENV)\b.*(SECRET|TOKEN|PASSWORD|DSN)`).FindString(text); secret != "" {
		t.Errorf("an image keeps what it is told for ever: %q", secret)
	}
}

// The build context must contain neither secrets nor the git history.
func TestDockerignore(t *testing.T) {
	lines := strings.Split(read(t, ".dockerignore"), "\n")
	for _, want := range []string{".git", ".env", ".env.*"} {
		found := false
		for _, line := range lines {
			found = found || line == want
		}
		if !found {
			t.Errorf("%s would be sent to the builder", want)
		}
	}
}
