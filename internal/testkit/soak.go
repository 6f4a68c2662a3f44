package testkit

import (
	"os"
	"strings"
)

// SoakVar is the environment variable that enables the long tests: SECKILL_TEST_SOAK=1. make soak sets it.
const SoakVar = "SECKILL_TEST_SOAK"

// Soak skips the test unless long tests are enabled. They only repeat more often: each kind of proof also has a quick
// test, which always runs. The test's name must begin with TestSoak, as make soak selects by name.
func Soak(t TB) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestSoak") {
		t.Fatalf("testkit: make soak only runs tests whose names begin with TestSoak, not %s", t.Name())
	}
	if os.Getenv(SoakVar) != "1" {
		t.Skipf("a long test: make soak runs it, or %s=1", SoakVar)
	}
}
