package buildinfo

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"seckill/internal/testkit"
)

// The variable that the linker sets has the name that the Dockerfile uses.
func TestLinkerSetsTheCommit(t *testing.T) {
	testkit.Servers(t)
	program := filepath.Join(t.TempDir(), "api")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false",
		"-ldflags=-s -w -X seckill/internal/buildinfo.commit=def", "-o", program, "./cmd/api")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), program, "-version").Output()
	if err != nil || !strings.HasPrefix(string(out), "api "+Version+", commit def, go1.") {
		t.Errorf("api -version: %v, %s", err, out)
	}
}
