package main

import (
	"strings"
	"testing"

	"seckill/internal/testkit"
)

// TestSoakSweep: the lease decides. A short one breaks every time, a long one never.
func TestSoakSweep(t *testing.T) {
	testkit.Soak(t)
	b := newProgram(t)
	args := []string{"sweep", "naive-wrong-release", "--lease", "1200ms..5s", "--work", "900ms", "--pause", "750ms", "--steps", "2", "--runs", "3"}
	code, stdout, stderr := b.run(withoutServers(t), args...)
	t.Logf("promised: 3 of 3 with 1.2s, 0 of 3 with 5s\n%s", stdout)
	for _, want := range []string{"  1.2s    3 of 3   █", "  5s      0 of 3   ·", "It breaks up to 1.2s, and holds from 5s."} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit code %d, no %q; progress\n%s", code, want, stderr)
		}
	}
	b.nothingLeft()
}
