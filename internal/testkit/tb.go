package testkit

import "context"

// TB is what this package asks of a test, or of an experiment that is none. [testing.TB] has all of it, so *testing.T and
// *testing.B are one; the laboratory brings its own, and with it does not link the package testing.
//
// Fatalf and Skipf do not return: they end the goroutine or panic. Skipf is called for one reason only, that something is
// not installed here and REQUIRE_INFRA=1 is not set; what it is, is asked beforehand with [Installed].
type TB interface {
	Helper()
	Name() string
	Failed() bool
	Cleanup(func())
	Context() context.Context // ends just before the functions of Cleanup are called
	TempDir() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
}
