package experiments

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
)

// An experiment keeps what it says about its parameters: it takes every choice, and both ends
// of a range, but nothing beyond them; and its own value is one that it would take, or has a
// name.
func TestBoundsOfParameters(t *testing.T) {
	set, _ := laboratory(t)
	for i := range set {
		e := &set[i]
		for _, p := range e.Changeable() {
			accepts := func(value string) bool {
				_, err := e.With(map[string]string{p.Name: value})
				if _, wrong := errors.AsType[*lab.ParameterError](err); err != nil && !wrong {
					t.Errorf("%s --%s %s: %v", e.ID, p.Name, value, err)
				}
				return err == nil
			}
			least, most, isRange := strings.Cut(p.Bounds, " to ")
			good := strings.Split(p.Bounds, ", ")
			bad := []string{"", "-1", "glue"}
			if isRange {
				good = []string{least, most}
				bad = append(bad, beyond(t, most))
			}
			for _, value := range good {
				if !accepts(value) {
					t.Errorf("%s does not take --%s %s; it says %s", e.ID, p.Name, value, p.Bounds)
				}
			}
			for _, value := range bad {
				if accepts(value) {
					t.Errorf("%s takes --%s %q; it says %s", e.ID, p.Name, value, p.Bounds)
				}
			}
			if own := p.Value(e.Setup); own == "" || strings.ContainsAny(own[:1], "0123456789") && !accepts(own) {
				t.Errorf("%s has --%s %s, which is outside of %s", e.ID, p.Name, own, p.Bounds)
			}
		}
	}
}

// beyond is a little more than a number or duration.
func beyond(t *testing.T, most string) string {
	t.Helper()
	if n, err := strconv.Atoi(most); err == nil {
		return strconv.Itoa(n + 1)
	}
	d, err := time.ParseDuration(most)
	if err != nil {
		t.Fatal(err)
	}
	return (d + time.Millisecond).String()
}

// A changed number is played, and not only printed: it turns the verdict, or does not, for the
// reason that the experiment is about.
func TestChangedNumbersArePlayed(t *testing.T) {
	for _, c := range []struct {
		id, values string // NAME=value
		want       finding.Verdict
	}{
		{"no-lock", "lock=lua", finding.Holds},
		{"no-lock", "stock-mode=conditional", finding.Holds},
		{"no-lock", "buyers=20 stock=5", finding.Breaks},
		{"reentrant-lock", "lock=lua lease=20ms work=200ms buyers=10", finding.Breaks},
		{"local-two-processes", "instances=1", finding.Holds},
		{"local-one-process", "instances=2", finding.Breaks},
		{"no-unique-index", "buyers=5", finding.Breaks},
		{"try-once", "wait=20s", finding.Holds},
		{"wait-and-be-woken", "wait=0s", finding.Breaks},
		{"polling-costs", "lock=reentrant", finding.Holds},
		{"naive-wrong-release", "lease=5s", finding.Holds},
		{"naive-wrong-release", "pause=1ms work=100ms", finding.Holds},
		{"naive-wrong-release", "lock=lua", finding.Holds},
		{"naive-wrong-release", "lease=1200ms work=900ms pause=750ms", finding.Breaks}, // in slow motion, as the next two
		{"thread-id-two-processes", "lease=1200ms work=700ms pause=800ms", finding.Breaks},
		{"uuid-between-compare-and-delete", "lease=1200ms work=600ms pause=900ms", finding.Breaks},
		{"thread-id-two-processes", "lease=5s", finding.Holds},
		{"uuid-between-compare-and-delete", "pause=1ms", finding.Holds},
		{"lua-lease-too-short", "lease=4s", finding.Holds},
		{"lua-lease-too-short", "work=10ms", finding.Holds},
		{"watchdog-keeps-long-holder", "lock=naive lease=300ms", finding.Holds}, // no lease is given, so it has its own
		{"given-lease-no-watchdog", "lease=300ms", finding.Breaks},
		{"paused-holder", "lease=2s", finding.Breaks},
		{"paused-holder", "lease=5s pause=100ms", finding.Holds},
		{"paused-holder", "lock=fenced stock-mode=fenced", finding.Holds},
		{"paused-holder", "stock-mode=version stock=1", finding.Holds},
		{"naive-holder-killed", "lease=1500ms", finding.Holds},
		{"watchdog-holder-killed", "work=1s", finding.Holds},
		{"setnx-expire-killed-between", "lease=1s", finding.Breaks},
		{"nested-without-reentry", "lock=reentrant", finding.Holds},
		{"nested-without-reentry", "wait=100ms", finding.Breaks},
		{"panic-skips-release", "work=300ms", finding.Breaks},
		{"watchdog-too-short-for-network", "lease=3s", finding.Holds},
		{"lost-reply-key-stays", "lease=1s", finding.Holds},
		{"get-lock-connection-lost", "work=400ms", finding.Breaks},
		{"row-survives-connection-loss", "lease=800ms", finding.Holds},
		{"unfair-order", "lock=fair buyers=6", finding.Holds},
		{"readers-take-turns", "buyers=2", finding.Breaks},
		{"acquire-inside-try", "buyers=3", finding.Breaks},
		{"red-minority-down", "down=2", finding.Breaks},
		{"zk-herd", "buyers=4", finding.Breaks},
		{"cancel-state-not-asked", "buyers=1", finding.Breaks},
		{"compensation-repeated", "buyers=7", finding.Breaks},
		{"event-handled-twice", "buyers=1", finding.Breaks},
		{"latest-event-wins", "buyers=20", finding.Breaks},
		{"expiry-by-query", "buyers=20", finding.Holds},
		{"late-money-stock-not-asked", "buyers=1", finding.Breaks},
		{"compensation-before-commit", "stock=1", finding.Breaks},
	} {
		t.Run(c.id+" "+c.values, func(t *testing.T) {
			set, bench := laboratory(t)
			e, err := set.Find(c.id)
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]string{}
			for pair := range strings.FieldsSeq(c.values) {
				name, value, _ := strings.Cut(pair, "=")
				values[name] = value
			}
			changed, err := e.With(values)
			if err != nil {
				t.Fatal(err)
			}
			parallelIfQuiet(t, e)
			r := bench.Run(t.Context(), changed)
			check(t, r)
			if r.Observed != c.want || r.Turned != (c.want != e.Expect) {
				t.Errorf("observed %s (turned: %v), want %s: %v", r.Observed, r.Turned, c.want, r.Anomalies)
			}
			var names []string
			for _, one := range r.Changed {
				names = append(names, one.Name)
				if one.To != values[one.Name] && one.To != normal(values[one.Name]) {
					t.Errorf("it was played with %s %s, not %s", one.Name, one.To, values[one.Name])
				}
			}
			if slices.Sort(names); !slices.Equal(names, slices.Sorted(maps.Keys(values))) {
				t.Errorf("changed are %q, want those of %q", names, c.values)
			}
			show(t, r)
		})
	}
}

// normal is a duration as it is printed.
func normal(value string) string {
	d, err := time.ParseDuration(value)
	if err != nil {
		return value
	}
	return d.String()
}
