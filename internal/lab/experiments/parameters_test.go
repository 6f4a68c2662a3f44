package experiments

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/testkit/fail"
)

// An experiment keeps what it says about its parameters: it takes every choice, and both ends of a range, but nothing
// beyond them; and its own value is one that it would take, or has a name.
func TestBoundsOfParameters(t *testing.T) {
	set, err := All()
	fail.NowIf(t, err)
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
	fail.NowIf(t, err)
	return (d + time.Millisecond).String()
}
