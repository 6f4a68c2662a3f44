package service

import (
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

// The positions were computed by the three lines of docs/waiting-room.md.
func TestDrawCommand(t *testing.T) {
	seed := strings.Repeat("ab", 32)
	for arguments, want := range map[string]string{
		seed + " 5 0": "5\n", seed + " 5 1": "2\n", seed + " 5 2": "1\n", seed + " 5 3": "3\n", seed + " 5 4": "4\n", seed + " 5 9": "10\n",
	} {
		var out strings.Builder
		fail.If(t, draw(strings.Fields(arguments), &out), arguments)
		fail.Unequal(t, out.String(), want, arguments)
	}
	for _, wrong := range []string{"", seed, seed + " 5", "xy 5 0", seed + " a 0", seed + " 5 -1", seed + " 5 0 0"} {
		fail.Unless(t, draw(strings.Fields(wrong), &strings.Builder{}), errUsage, "%q", wrong)
	}
}
