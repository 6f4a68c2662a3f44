// Package fail reports what a test does not want, in a line where an if and its braces would take three.
package fail

import (
	"errors"
	"fmt"
	"strings"
)

// T is what this package needs of a test.
type T interface {
	Helper()
	Error(args ...any)
	Fatal(args ...any)
}

// NowIf ends the test if there is an error. What was done may follow: a format and its values.
func NowIf(t T, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Fatal(about(what) + err.Error())
	}
}

// If reports an error and lets the test go on.
func If(t T, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Error(about(what) + err.Error())
	}
}

// Unless reports an error, or none, that is not the one that is wanted.
func Unless(t T, err, want error, what ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Error(fmt.Sprintf("%sgot %v, want %v", about(what), err, want))
	}
}

// NowUnless ends the test unless the error is the one that is wanted.
func NowUnless(t T, err, want error, what ...any) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatal(fmt.Sprintf("%sgot %v, want %v", about(what), err, want))
	}
}

// Unequal reports a value that is not the one that is wanted.
func Unequal[V comparable](t T, got, want V, what ...any) {
	t.Helper()
	if got != want {
		t.Error(fmt.Sprintf("%sgot %v, want %v", about(what), got, want))
	}
}

// NowUnequal ends the test if a value is not the one that is wanted.
func NowUnequal[V comparable](t T, got, want V, what ...any) {
	t.Helper()
	if got != want {
		t.Fatal(fmt.Sprintf("%sgot %v, want %v", about(what), got, want))
	}
}

// Without reports each part that a text does not have.
func Without(t T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Error(fmt.Sprintf("no %q in\n%s", part, text))
		}
	}
}

// Of returns the error of a call whose result does not matter.
func Of[R any](_ R, err error) error { return err }

func about(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprintf(what[0].(string), what[1:]...) + ": "
}
