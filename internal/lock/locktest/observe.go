package locktest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// Observe tries a behaviour once, with a mechanism that has promised nothing. It returns nil if the behaviour held, an
// error that [Violated] recognises if it did not, and another error if it could not be tried. tb need not be a test: it
// closes what the subject opens.
func Observe(tb testing.TB, name Behaviour, subject Subject) error {
	table := behaviours()
	i := slices.IndexFunc(table, func(b behaviour) bool { return b.name == name })
	if i < 0 {
		return fmt.Errorf("locktest: no behaviour is called %q", name)
	}
	return table[i].try(tb, subject.at(realPace(), nil))
}

// Violated says what a trial of [Observe] saw, and when, if the behaviour did not hold.
func Violated(err error) (what string, at time.Time, ok bool) {
	v, ok := errors.AsType[*violationError](err)
	if !ok {
		return "", time.Time{}, false
	}
	return v.what, v.at, true
}

// Description says what a behaviour is.
func (b Behaviour) Description() string {
	for _, one := range slices.Concat(behaviours(), sharedBehaviours()) {
		if one.name == b {
			return one.description
		}
	}
	return ""
}
