package harness

import (
	"cmp"
	"os"
	"strconv"
	"testing"
)

// Number reads a number from the environment.
func Number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", name, os.Getenv(name))
	}
	return n
}
