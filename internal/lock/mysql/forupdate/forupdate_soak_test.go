package forupdate_test

import (
	"testing"
	"time"

	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/mysqlstore"
	"seckill/internal/testkit"
)

func TestSoakConformance(t *testing.T) {
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		locktest.Soak(t, mechanism(20*time.Millisecond).Factory(engine), promises())
	})
}
