package fulfil

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// While replicas do not have an order, it is not written to the database: the replica that is promoted would sell its
// stock again. Nothing is rejected meanwhile, however often the entry is read.
func TestNothingIsWrittenThatReplicasLack(t *testing.T) {
	t.Parallel()
	primary := testkit.NewRedis(t)
	replica := testkit.NewRedisReplica(t, primary)
	s := openReal(t, clientOf(t, primary.Addr()), testkit.MariaDB(t), sale{stock: 100})
	s.run(func(c *Config) { c.WaitReplicas = 1 })
	s.accept(1, 2)
	s.waitUntilEmpty()

	replica.Pause()
	s.accept(1, 3)
	written := func() int64 {
		audit, err := s.db.Orders().Audit(t.Context(), 1)
		s.must(err)
		rejected, err := s.db.Orders().Rejected(t.Context(), 1)
		s.must(err)
		return audit.Orders + rejected
	}
	waits := func() (calls int) { // by the worker, that have ended
		_, _ = fmt.Sscanf(s.client.InfoMap(t.Context(), "commandstats").Item("Commandstats", "cmdstat_wait"), "calls=%d", &calls)
		return calls
	}
	before := waits()
	testkit.Until(t, "the worker has asked for the replica again and again", func() bool { return waits() >= before+5 })
	fail.NowUnequal(t, written(), 2, "orders that were written, of 2 that a replica has")
	replica.Resume()
	s.waitUntilEmpty()
	s.wantFinalState(0)
}

// An entry is read, and then a replica without it is promoted. The new primary has replicas that have all that it has
// written, and yet nobody has the entry: it is not handed out.
func TestEntriesThatAPromotedReplicaLacks(t *testing.T) {
	t.Parallel()
	primary, replica := testkit.NewRedis(t), testkit.NewRedis(t)
	link, door := testkit.NewProxy(t, primary.Addr()), testkit.NewProxy(t, primary.Addr())
	replica.ReplicaOf(link.Addr())
	s := openReal(t, clientOf(t, door.Addr()), testkit.MariaDB(t), sale{vouchers: 2, stock: 100})
	streams := []*stream{newStream(s.prefix, 1, 0), newStream(s.prefix, 2, 0)}
	read := newRedisStreams(s.client)
	for _, of := range streams {
		s.must(read.ensureGroup(t.Context(), of))
	}
	s.accept(2, 1)
	acknowledged := func(addr string) {
		conn := clientOf(t, addr).Conn()
		defer conn.Close()
		testkit.Until(t, "a replica has everything", func() bool {
			s.must(conn.Set(t.Context(), "probe", 1, time.Second).Err())
			n, err := conn.Wait(t.Context(), 1, time.Second).Result()
			return err == nil && n == 1
		})
	}
	acknowledged(primary.Addr())
	link.Cut()
	s.accept(1, 1)
	entries, err := read.readNew(t.Context(), "w", streams, 10, time.Millisecond, nil)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v", entries, err)
	}
	primary.Kill()
	replica.Promote()
	door.SetUpstream(replica.Addr())
	testkit.NewRedisReplica(t, replica)
	acknowledged(replica.Addr())

	options := ledger.Options{WaitReplicas: 1, WaitTimeout: nodeTimeout / 2}
	testkit.Until(t, "an answer of the new primary", func() bool {
		return s.client.Ping(t.Context()).Err() == nil
	})
	for _, oneServer := range []bool{true, false} { // false is how the nodes of a cluster are asked
		r := &replicatedStreams{read, ledger.New(s.client, options), oneServer}
		kept, failed := r.replicated(t.Context(), entries)
		if failed == nil || !errors.Is(failed, errOtherServer) || len(failed.streams) != 1 || failed.streams[0] != streams[0] ||
			len(kept) != 1 || kept[0].stream != streams[1] {
			t.Errorf("one server %v: handed out %+v, %v", oneServer, kept, failed)
		}
		gone := parse(streams[0], "1-1", map[string]any(nil))
		if kept, failed = r.replicated(t.Context(), gone); failed != nil || len(kept) != 1 {
			t.Errorf("one server %v, a deleted entry: %v, %v", oneServer, kept, failed)
		}
	}
}
