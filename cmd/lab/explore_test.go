package main

import (
	"strings"
	"testing"

	"seckill/internal/lab/explore"
	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

// With all, each lock has a budget of its own, until a flag says otherwise.
func TestExploreAllWithin(t *testing.T) {
	for _, c := range []struct {
		args string
		own  bool
	}{{"all", true}, {"all --json --for 4s", true}, {"all --most 2", false}, {"--kills 0 all", false}, {"all --buyers 3", false}, {"lua", false}} {
		r, err := parseExplore(strings.Fields(c.args))
		fail.NowIf(t, err)
		fail.Unequal(t, r.own, c.own, "%s: budgets of their own", c.args)
	}
	for _, name := range explorable() {
		var c explore.Config
		within(&c, name)
		if m, _ := lock.Lookup(name); c.Most < 1 || c.Budget.Total() < c.Most || m.Store == lock.InNodes && c.Budget[explore.Restarting] == 0 {
			t.Errorf("%s: at most %d of %s", name, c.Most, c.Budget)
		}
	}
}

// A search says what it covers, tells the shortest schedule, and draws it.
func TestExploreOne(t *testing.T) {
	code, stdout, stderr := call(t, "explore", "setnx", "--preemptions", "0", "--expiries", "0", "--pauses", "0", "--cuts", "0")
	for _, part := range []string{"of at most 1 kill", "Every schedule within the budget was tried", "stuck keys", "setnx~2~s1-k1", "Again: lab replay"} {
		if code != exitOK || !strings.Contains(stdout, part) {
			t.Errorf("exit %d, %q is missing: %s%s", code, part, stdout, stderr)
		}
	}
}
