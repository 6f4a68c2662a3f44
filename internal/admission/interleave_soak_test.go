package admission_test

import (
	"testing"

	"seckill/internal/testkit"
)

func TestSoakLifecycleUnderRandomInterleavings(t *testing.T) {
	testkit.Soak(t)
	for range 10 {
		interleave(newShop(t, testkit.MariaDB(t)), 2000)
	}
}
