package harness

import (
	"slices"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// Replicated is a Redis with a replica. The processes reach the current primary by one address.
type Replicated struct {
	Primary, Replica *testkit.RedisServer
	t                *testing.T
	door, link       *testkit.Proxy // link is the replica's way to the primary
	aof              bool
}

// NewReplicated starts both with the same arguments.
func NewReplicated(t *testing.T, args ...string) *Replicated {
	t.Helper()
	r := &Replicated{t: t, Primary: testkit.NewRedis(t, args...), Replica: testkit.NewRedis(t, args...), aof: slices.Contains(args, "--appendonly")}
	r.door, r.link = testkit.NewProxy(t, r.Primary.Addr()), testkit.NewProxy(t, r.Primary.Addr())
	r.follow()
	return r
}

// Addr is the address of whichever is the primary.
func (r *Replicated) Addr() string { return r.door.Addr() }

// follow waits until the replica has all data of the primary, in memory and in its file. Without the file, a replica
// that is promoted and then killed would come back with older data.
func (r *Replicated) follow() {
	r.t.Helper()
	r.Replica.ReplicaOf(r.link.Addr())
	client := r.Replica.Client(r.t)
	defer client.Close()
	testkit.Until(r.t, "the replica's file is written", func() bool {
		info := client.InfoMap(r.t.Context(), "persistence")
		return !r.aof || info.Item("Persistence", "aof_enabled") == "1" && info.Item("Persistence", "aof_rewrite_in_progress") == "0" &&
			info.Item("Persistence", "aof_rewrite_scheduled") == "0"
	})
}

// Cut cuts the link, so that the replica gets nothing more.
func (r *Replicated) Cut() { r.link.Cut() }

// TakeOver makes the replica the primary with what it has, and leads new connections to it. The old primary is Replica
// then, and follows nobody.
func (r *Replicated) TakeOver() {
	r.t.Helper()
	r.Replica.Promote()
	r.door.SetUpstream(r.Replica.Addr())
	r.Primary, r.Replica = r.Replica, r.Primary
}

// Promote makes the replica the primary although the old one is healthy, without what is written during the lag, and
// returns when the old primary follows.
func (r *Replicated) Promote(lag time.Duration) {
	r.t.Helper()
	r.follow() // the primary may have been restarted a moment ago
	r.Cut()
	time.Sleep(lag)
	r.TakeOver()
	r.link.SetUpstream(r.Primary.Addr())
	r.follow()
}
