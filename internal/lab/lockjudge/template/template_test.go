package template_test

import (
	"go/format"
	"path"
	"slices"
	"strings"
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
	// The command in its head can be typed as it is, and no lock hands out what a later lesson asks for.
	name, err := template.Find("name")
	fail.NowIf(t, err)
	for folder, command := range map[string]string{"mine": "judge ./mine", "mycourse/lesson5": "judge ./mycourse/lesson5", "/tmp/lesson5": "judge /tmp/lesson5"} {
		program := name.Source(folder)
		if fail.Without(t, program, "lab "+command+"\n", "Command "+path.Base(folder)+" "); strings.Contains(program, "redis.call('DEL'") {
			t.Errorf("the lock of an earlier lesson releases as that of a later one:\n%s", program)
		}
	}
	if _, err := template.Find("nothing"); err == nil {
		t.Error("it found a template that is not there")
	}
}
