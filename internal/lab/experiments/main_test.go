package experiments

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// environment is shared by the tests of this package, as it is by the experiments of one run. It is a package variable
// because TestMain cannot pass values to tests.
var environment *testbed.Environment

func TestMain(m *testing.M) {
	lockclient.MainIfChild()
	testbed.MainIfRedis()
	testkit.Main(withEnvironment{m})
}

// withEnvironment opens the environment, runs the tests and closes it.
type withEnvironment struct{ tests *testing.M }

// Run implements the interface of [testkit.Main].
func (h withEnvironment) Run() int {
	var err error
	environment, err = testbed.Open(context.Background(), testbed.Options{Instances: 2, Duration: 3 * time.Second, Seed: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := h.tests.Run()
	if err := environment.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}
