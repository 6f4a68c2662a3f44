package main

import (
	"strings"
	"testing"

	"seckill/internal/testkit/fail"
)

func TestValuesBetween(t *testing.T) {
	for _, c := range []struct {
		from, to string
		steps    int
		want     string // with spaces between; "" is refused
	}{
		{"50ms", "800ms", 4, "50ms 300ms 550ms 800ms"},
		{"0s", "1s", 3, "0s 500ms 1s"},
		{"1ms", "3ms", 6, "1ms 2ms 3ms"},
		{"1", "9", 3, "1 5 9"},
		{"1", "3", 6, "1 2 3"},
		{"800ms", "50ms", 4, ""},
		{"50ms", "50ms", 4, ""},
		{"50ms", "", 4, ""},
		{"50ms", "8", 4, ""},
		{"few", "many", 4, ""},
	} {
		values, err := valuesBetween(c.from, c.to, c.steps)
		if got := strings.Join(values, " "); got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%d values of %s..%s are %q, %v; want %q", c.steps, c.from, c.to, got, err, c.want)
		}
	}
}

func TestWhereASweepTurns(t *testing.T) {
	for want, broke := range map[string][]int{
		"It breaks up to b, and holds from c.": {3, 3, 0},
		"It holds up to a, and breaks from b.": {0, 3, 3},
		"It breaks with every value.":          {3, 3, 3},
		"":                                     {3, 1, 0}, // by chance
	} {
		req := sweepRequest{runs: 3}
		for i, n := range broke {
			req.steps = append(req.steps, &sweepStep{Value: string(rune('a' + i)), Runs: 3, Broke: n, Held: 3 - n})
		}
		fail.Unequal(t, req.turns(), want, "%v", broke)
	}
	there := sweepRequest{runs: 1, steps: []*sweepStep{{Broke: 1}, {Held: 1}, {Broke: 1}}}
	fail.Unequal(t, there.turns(), "", "it turns twice, and says")
}

func TestWrongSweep(t *testing.T) {
	for want, args := range map[string][]string{
		"which experiment?":        {"--lease", "1s..2s"},
		"the id of one":            {"no-lock", "paused-holder", "--stock", "1..2"},
		"which number":             {"no-lock", "--stock", "5"},
		"one number at a time":     {"no-lock", "--stock", "1..5", "--buyers", "1..5"},
		"such as 50ms..800ms":      {"paused-holder", "--lease", "1..800ms"},
		"from the smaller":         {"paused-holder", "--lease", "2s..1s"},
		"has no parameter":         {"paused-holder", "--buyers", "1..5"},
		"it can be 500ms to 5s":    {"paused-holder", "--lease", "1s..6s"},
		"--steps is 1; 2 to 50":    {"paused-holder", "--lease", "1s..2s", "--steps", "1"},
		"--runs is 0; 1 to 50":     {"paused-holder", "--lease", "1s..2s", "--runs", "0"},
		"--api: stat /nonexistent": {"paused-holder", "--lease", "1s..2s", "--api", "/nonexistent"},
	} {
		code, stdout, stderr := call(t, append([]string{"sweep"}, args...)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q; want 2 and %q", args, code, stdout, stderr, want)
		}
	}
}
