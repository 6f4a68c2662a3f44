package testkit

import "context"

// TB is what this package needs of a test or an experiment. *testing.T and *testing.B implement it through
// [testing.TB]. The laboratory has its own implementation and so does not link the package testing. Fatalf and Skipf do
// not return: they end the goroutine or panic. Skipf is called only when something is not installed and REQUIRE_INFRA=1
// is not set. [Installed] tells that in advance.
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
