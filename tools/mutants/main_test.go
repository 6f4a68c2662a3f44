package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A change that moves a line of the table away is told at once, and not when somebody runs all faults.
func TestTableFits(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, m := range table() {
		if seen[m.fault] {
			t.Errorf("%q stands in the table twice", m.fault)
		}
		seen[m.fault] = true
		content, err := os.ReadFile(filepath.Join("..", "..", m.file))
		if err != nil {
			t.Error(err)
			continue
		}
		if n := strings.Count(string(content), m.old); n != 1 || m.old == m.new || m.packages == "" {
			t.Errorf("%s (%s): %q must stand there once, is there %d times; new %q, packages %q", m.fault, m.file, m.old, n, m.new, m.packages)
		}
	}
}
