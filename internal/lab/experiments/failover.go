package experiments

import (
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
	"seckill/internal/testkit"
)

// failovers are the experiments about a primary whose replica takes its place.
func failovers() lab.Set {
	const group = "A failover that forgets"
	return lab.Set{
		{
			ID: "primary-dies-before-replicating", Group: group, Title: "The primary dies before its replica knows of the lock",
			Sources: []lab.Source{
				{Document: "004", Section: "The greatest problem of the design: asynchronous replication"},
				{Document: "003", Section: "Problems that come with primary and replica"},
				{Document: "002", Section: "Problems of an ordinary Redis lock"},
			},
			Hypothesis: "When a Redis primary dies before its replica got the newest lock, the promoted replica grants that lock a second time while the first holder works.",
			Arrangement: "A primary with a replica in step. The way between them is cut; buyer 1 gets the lock from the primary, the primary is killed (SIGKILL), the replica is promoted (REPLICAOF NO ONE), " +
				"and the address that all processes use leads to it. Buyer 2 tries, from another process. The lease is 15 s and renewed.",
			Why: "Redis answers a write before its replicas have it. Whatever the primary acknowledged in its last moment is gone when it dies, and the replica that takes its place does not know that anything is missing: " +
				"to it the lock is free. Nothing was done wrong by either buyer, and no lease ran out. The first holder hears of it at its next renewal at the earliest, a third of the lease later, and not at all if its work is done " +
				"by then. WAIT narrows the gap and does not close it, since a replica without the write may be promoted all the same. What helps is " +
				"to ask several servers that do not replicate each other.",
			Seen:    "after a failover two holders, each with an answer from the primary",
			Cure:    "Several nodes that know nothing of each other (multi-survives-failover, or red); or a token that the database checks (paused-holder-fenced).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "multi-survives-failover",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   trying("reentrant"),
			Scene:   primaryDies,
		},
		{
			ID: "multi-survives-failover", Group: group, Title: "Two more nodes remember what the third forgot",
			Sources: []lab.Source{
				{Document: "000", Section: "How MultiLock works"},
				{Document: "002", Section: "MultiLock"},
			},
			Hypothesis: "When every one of three independent nodes has to grant the lock, a failover that makes one of them forget it lets nobody else in.",
			Arrangement: "The primary and its replica of the other experiment are one of three nodes; the other two stand alone. The same cut, death, promotion and buyers. " +
				"Refused, buyer 2 comes again when buyer 1 is done.",
			Why: "The same write is lost in the same way, and the promoted replica would grant the lock to anybody. But its vote is one of three that are needed, and the two others still have buyer 1's key: they say no, and what buyer 2 got from " +
				"the third it gives back. The nodes do not replicate each other, so no single failure makes all of them forget. The first holder loses something, too: its lock is not whole any more, and its next renewal or its " +
				"release tells it so. The price comes with the first node that stays down: then nobody gets in (multi-one-node-down).",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "primary-dies-before-replicating",
			Needs:   []stage.Server{stage.Redis},
			Quiet:   true,
			Setup:   trying("multi"),
			Scene:   primaryDies,
		},
	}
}

// primaryDies has a primary grant the lock and die before its replica got it. For a
// mechanism that wants several nodes, two more stand beside them.
func primaryDies(p *lab.Play, with lab.Setup) {
	e := assemble(p, with)
	primary, replica := p.OwnRedis(), p.OwnRedis()
	link, address := testkit.NewProxy(p, primary.Addr()), testkit.NewProxy(p, primary.Addr())
	replica.ReplicaOf(link.Addr())
	if e.several() {
		e.join("node 1", p.OwnRedis())
		e.join("node 2", p.OwnRedis())
	}
	e.joinBehind("primary", primary, address.Addr())
	e.watch("its replica", replica)
	first, other := e.hire("shop-1"), e.hire("shop-2")

	link.Cut()
	cut := p.Fault("no replication")
	g := e.begin(first)
	e.kill("primary", primary)
	cut()
	p.Fault("the primary is dead")
	replica.Promote()
	address.Lead(replica.Addr())
	p.Fault("the replica takes its place")()
	e.intrude(first, g, other)
}
