package fulfil

import (
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
)

// While replicas do not have an order, it is not written to the database: the replica that is promoted would sell its
// stock again. Nothing is rejected meanwhile, however often the entry is read.
func TestNothingIsWrittenThatReplicasLack(t *testing.T) {
	t.Parallel()
	primary := testkit.NewRedis(t)
	replica := testkit.NewRedisReplica(t, primary)
	s := openEnv(t, clientOf(t, primary.Addr()), testkit.MariaDB(t), 1, 100)
	s.run(func(c *Config) { c.WaitReplicas = 1 })
	s.accept(1, 2)
	s.waitUntilEmpty()

	replica.Pause()
	s.accept(1, 3)
	written := func() int64 { confirmed, rejected := s.sums(); return confirmed + rejected }
	testkit.Until(t, "the worker has read one of the entries", func() bool {
		pending, err := s.client.XPending(t.Context(), s.keys(1).Orders, ledger.Group).Result()
		s.must(err)
		return pending.Count > 0 || written() > 2
	})
	time.Sleep(2 * time.Second) // in which it tries again and again, and must write nothing
	if n := written(); n != 2 {
		t.Fatalf("%d orders were written, of 2 that a replica has", n)
	}
	replica.Resume()
	s.waitUntilEmpty()
	if n := s.checkFinalState(); n != 0 {
		t.Errorf("%d rejected", n)
	}
}
