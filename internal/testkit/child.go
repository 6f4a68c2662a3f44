package testkit

import (
	"fmt"
	"os"
)

// Children are the functions that a test binary can run in a process of its own, by name. Give them to [Main].
type Children map[string]func() (exitCode int)

// ChildVar names the function that this process runs in place of the tests, for a test that starts its binary otherwise
// than by [StartChild].
const ChildVar = "SECKILL_TEST_CHILD"

// run runs the function that this process was started for, if there is one, and ends the process.
func (c Children) run() {
	name := os.Getenv(ChildVar)
	if name == "" {
		return
	}
	child, known := c[name]
	if !known {
		fmt.Fprintf(os.Stderr, "testkit: the package has no child %q\n", name)
		os.Exit(2)
	}
	os.Exit(child())
}

// Child returns the command that runs this test binary again, as a process that runs the function of that name in
// [Children]. env (NAME=value) tells it what to do.
func Child(t TB, name string, env ...string) Command {
	t.Helper()
	check(t, allowed())
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("testkit: %v", err)
	}
	return Command{Path: self, Env: append([]string{ChildVar + "=" + name}, env...)}
}

// StartChild starts the process of [Child].
func StartChild(t TB, name string, env ...string) *Process {
	t.Helper()
	return Start(t, Child(t, name, env...))
}
