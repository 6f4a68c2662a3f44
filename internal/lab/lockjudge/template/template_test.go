package template_test

import (
	"go/format"
	"slices"
	"testing"

	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/lockjudge/template"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit/fail"
)

// Each program can be read: it is formatted, and differs from its solution.
func TestTemplates(t *testing.T) {
	for _, one := range template.Templates() {
		flawed, mended := one.Source("mine"), one.Solution("mine")
		if flawed == mended || !lockjudge.IsBehaviour(one.Goal) {
			t.Errorf("%s: the goal is %q", one.Name, one.Goal)
		}
		if left := one.LeavesOut(); len(left) < 4 || slices.ContainsFunc(left, func(b locktest.Behaviour) bool { return !lockjudge.IsBehaviour(b) || b == one.Goal }) {
			t.Errorf("%s leaves out %q", one.Name, left)
		}
		for _, program := range []string{flawed, mended} {
			formatted, err := format.Source([]byte(program))
			fail.If(t, err, one.Name)
			fail.Unequal(t, string(formatted), program, one.Name)
		}
	}
	if _, err := template.Find("nothing"); err == nil {
		t.Error("it found a template that is not there")
	}
}
