package harness

import (
	"cmp"
	"maps"
	"os"
	"strconv"
	"testing"
	"time"

	"seckill/internal/service"
	"seckill/internal/testkit"
)

// Main runs the tests of a package. The package's binary is the service, too: see [Start]. It can be other children in
// addition.
func Main(m *testing.M, others ...testkit.Children) {
	children := testkit.Children{"service": func() int { return service.Command(os.Args[1:], os.Environ()) }}
	for _, more := range others {
		maps.Copy(children, more)
	}
	testkit.Main(m, children)
}

// AsService is the variable with which a test's binary is the service.
const AsService = testkit.ChildVar + "=service"

// The secrets of the services under test, and those of their payment provider.
const (
	Secret        = "a secret that is long enough to be one"
	AdminToken    = "an administrator"
	PaymentKey    = "key of this shop at its provider"
	WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
)

// Patience bounds a wait. It only ends a test that hangs: a slow machine is no failure.
const Patience = 2 * time.Minute

// Number reads a number from the environment.
func Number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	if err != nil || n < 1 {
		t.Fatalf("%s is %q, want a number", name, os.Getenv(name))
	}
	return n
}
