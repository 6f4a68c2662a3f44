package main

import (
	"strings"
	"testing"

	"seckill/internal/testkit"
)

// A redis-server comes to the same as virtual time; what it cannot be made to do is said.
func TestReplayOnServer(t *testing.T) {
	testkit.Servers(t)
	for _, c := range []struct {
		schedule string
		exit     int
		says     string
	}{
		{"uuid~2~s1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1", exitOK, "wrong releases, certain after step 11\nThe same.\n"},
		{"naive~2~s1-q1-j1", exitFailed, "a jump of its clock cannot be brought about from outside"},
	} {
		if code, stdout, stderr := call(t, "replay", "--server", c.schedule); code != c.exit || !strings.Contains(stdout+stderr, c.says) {
			t.Errorf("%s: exit %d, %s%s", c.schedule, code, stdout, stderr)
		}
	}
}
