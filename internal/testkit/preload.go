package testkit

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
)

// Preload compiles a C file to a library, and returns the environment variable (NAME=value) that makes a server load it
// before all others, so that its functions replace those of the C library. Where no compiler is installed, it skips the
// test like [Tool].
func Preload(t TB, source string) string {
	t.Helper()
	cc := Tool(t, "apt-get install gcc libc6-dev", cmp.Or(os.Getenv("CC"), "gcc"))
	library := filepath.Join(t.TempDir(), "preload.so")
	if out, err := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl").CombinedOutput(); err != nil {
		t.Fatalf("compile %s: %v\n%s", source, err, out)
	}
	return "LD_PRELOAD=" + library
}
