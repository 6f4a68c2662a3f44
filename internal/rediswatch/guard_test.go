package rediswatch

import (
	"strings"
	"testing"

	"seckill/internal/lock"
)

// The guard covers every safe mechanism that keeps its locks in Redis.
func TestGuardKnowsEveryMechanism(t *testing.T) {
	known := map[string]bool{}
	for _, name := range append(redisLocks(), nodeLocks()...) {
		known[name] = true
	}
	for _, m := range lock.Catalogue() {
		elsewhere := strings.HasPrefix(m.Name, "mysql-") || strings.HasPrefix(m.Name, "zk-")
		if m.Safe && !elsewhere != known[m.Name] {
			t.Errorf("%s: guarded is %v", m.Name, known[m.Name])
		}
	}
}
