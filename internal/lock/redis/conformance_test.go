package redis_test

import (
	"testing"

	"seckill/internal/lock/locktest"
)

func TestConformance(t *testing.T) {
	for _, m := range mechanisms() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			locktest.Virtual(t, m.Virtual, m.Simulated())
		})
	}
}
