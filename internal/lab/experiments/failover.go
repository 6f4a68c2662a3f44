package experiments

import (
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/testkit"
)

// failovers are the experiments about a primary whose replica takes its place.
func failovers() []comparison {
	return []comparison{{
		text: "failover", scenario: primaryDies, needs: []testbed.Server{testbed.RedisServer}, quiet: true, cases: []setupCase{
			{id: "primary-dies-before-replicating", setup: renewedTryOnce("reentrant"), breaks: kinds{finding.Overlaps}},
			{id: "waited-other-replica", setup: renewedTryOnce("waited"), breaks: kinds{finding.Overlaps}},
			{id: "multi-survives-failover", setup: renewedTryOnce("multi"), holds: kinds{finding.Overlaps}},
		},
	}}
}

// primaryDies makes a primary grant the lock and die before its replica has received it. A mechanism that uses several
// nodes gets two more, and one that waits for a replica gets another replica, which acknowledges the lock and is not
// promoted.
func primaryDies(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	primary, replica := t.OwnRedis(), t.OwnRedis()
	link, address := testkit.NewProxy(t, primary.Addr()), testkit.NewProxy(t, primary.Addr())
	replica.ReplicaOf(link.Addr())
	if e.usesNodes() {
		e.addServer("node 1", t.OwnRedis())
		e.addServer("node 2", t.OwnRedis())
	}
	e.addServerAt("primary", primary, address.Addr())
	var acknowledges *testkit.RedisServer
	if setup.Policy.Lock == "waited" {
		acknowledges = t.OwnRedis()
		acknowledges.ReplicaOf(primary.Addr())
		e.observeServer("the replica that acknowledges", acknowledges)
	}
	e.observeServer("its replica", replica)
	first, other := e.start("process-1"), e.start("process-2")

	link.Cut()
	cut := t.Fault(i18n.F("no replication"))
	g := e.firstAcquires(first)
	e.kill("primary", primary)
	cut()
	t.Fault(i18n.F("the primary is dead"))
	replica.Promote()
	address.SetUpstream(replica.Addr())
	e.noteReturn(i18n.F("the replica takes its place"))
	if acknowledges != nil {
		acknowledges.ReplicaOf(replica.Addr()) // as a sentinel does; it takes over the new primary's data
	}
	e.secondTries(first, g, other)
}
