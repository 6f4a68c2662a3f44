package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Without a command, and without a server on the machine, a lock breaks before the reader's
// eyes; what is to be run next can be run.
func TestWelcome(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	code, stdout, stderr := b.run(withoutServers(t))
	if code != exitOK {
		t.Fatalf("exit code %d; stderr:\n%s", code, stderr)
	}
	for _, want := range []string{"Welcome", "━━ holds the lock", "╍╍ believes so", "✗", "SQLite", firstExperiment + " breaks: "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("want %q in\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "not as expected") {
		t.Errorf("it did not break:\n%s", stdout)
	}
	b.nothingLeft()

	next := regexp.MustCompile(`(?m)^  go run \./cmd/lab (.*?)  +`).FindAllStringSubmatch(stdout, -1)
	if len(next) != 3 {
		t.Fatalf("it names %d commands, want 3:\n%s", len(next), stdout)
	}
	for _, command := range next {
		args := strings.Fields(command[1])
		if args[0] == "run" {
			_, err := parseRun(everyExperiment(t), args[1:])
			if err != nil {
				t.Errorf("%q: %v", command[1], err)
			}
			continue
		}
		if code, _, stderr := call(t, args...); code != exitOK {
			t.Errorf("%q: exit code %d, %s", command[1], code, stderr)
		}
	}
}

func TestWelcomeFitsATerminal(t *testing.T) {
	for line := range strings.Lines(greeting + farewell) {
		if utf8.RuneCountInString(line) > narrow+1 { // and its end
			t.Errorf("%d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
}
