package simulate

import (
	"sync"
	"testing"
	"testing/synctest"
)

// Bubble calls f in a bubble of testing/synctest, in a program that need not be a test, and returns once every
// goroutine of the bubble has ended. f may use t for Cleanup and Context, and must not fail it: there is no test to
// fail.
//
// A bubble needs a test. The zero T is enough of one: a test here says so of each release of Go.
func Bubble(f func(t *testing.T)) {
	registerFlags()
	synctest.Test(new(testing.T), f)
}

// registerFlags lets package testing look at its flags, which have their defaults.
var registerFlags = sync.OnceFunc(testing.Init)
