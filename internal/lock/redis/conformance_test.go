package redis_test

import (
	"slices"
	"testing"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/locktest/redisstore"
)

// A lock of the catalogue that nobody has written promises for would be proven to do nothing.
func TestEveryLockHasPromises(t *testing.T) {
	own := []string{"uuid-wrong-key"} // its test names what holds without a release
	for _, m := range lock.Catalogue() {
		here := m.Store == lock.InRedis || m.Store == lock.InNodes
		if here && !slices.Contains(own, m.Name) &&
			!slices.ContainsFunc(mechanisms(), func(has redisstore.Mechanism) bool { return has.Name == m.Name }) {
			t.Errorf("%s has no row in mechanisms", m.Name)
		}
	}
}

func TestConformance(t *testing.T) {
	for _, m := range mechanisms() {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			locktest.Virtual(t, m.Virtual, m.Simulated())
		})
	}
}
