package simulate_test

import (
	"os/exec"
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// A program that is no test has bubbles, too, and prints nothing of package testing.
func TestBubbleOutsideATest(t *testing.T) {
	out, err := exec.Command("go", "run", "./testdata/bubble").CombinedOutput()
	fail.NowIf(t, err, "%s", out)
	fail.Unequal(t, strings.TrimSpace(string(out)), "1h0m0s", "output")
}
