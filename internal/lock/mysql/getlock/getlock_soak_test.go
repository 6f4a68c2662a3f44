package getlock_test

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

func TestSoakWaitsForFractionsOfASecond(t *testing.T) {
	testkit.Soak(t)
	mysqlstore.Engines(t, func(t *testing.T, engine func(testkit.TB) testkit.Database) {
		waitsForFractionsOfASecond(t, engine, 350*time.Millisecond)
	})
}
