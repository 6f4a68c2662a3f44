package harness

import (
	"os"
	"testing"

	"seckill/internal/service"
	"seckill/internal/testkit"
)

// Main runs the tests of a package. The package's binary is the service, too: see [Start].
func Main(m *testing.M, children ...testkit.Children) {
	testkit.Main(m, append(children, testkit.Children{
		"service": func() int { return service.Command(os.Args[1:], os.Environ()) },
	})...)
}

// AsService is the variable with which a test's binary is the service.
const AsService = testkit.ChildVar + "=service"
