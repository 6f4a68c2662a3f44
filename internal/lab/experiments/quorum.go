package experiments

import (
	"slices"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/stage"
)

// quorums are the experiments about nodes that vote: all of them have to grant the
// lock, or a majority.
func quorums() lab.Set {
	return slices.Concat(nodeDown(), nodeRestarts(), clocksJump())
}

func nodeDown() lab.Set {
	const group = "A node is down"
	return lab.Set{
		{
			ID: "multi-one-node-down", Group: group, Title: "One of three nodes is down, and nobody gets in",
			Sources: []lab.Source{
				{Document: "000", Section: "How MultiLock works"},
				{Document: "002", Section: "MultiLock"},
			},
			Hypothesis:  "When every one of three nodes has to grant the lock, nobody gets it while one of them is down.",
			Arrangement: "Three Redis nodes that know nothing of each other. Buyer 1 gets the lock and gives it back; node 3 is killed; buyers 2 and 3 try, each from another process.",
			Why: "The lock asks every node, so each node has a veto, and a node that is down cannot say yes. Both buyers are told at once that the lock is unavailable, although nobody holds it and two nodes out of three are " +
				"well. Each node that is added to make such a lock safer makes it more likely that one of them is down: three nodes fail three times as often as one. It is the safe side to err on: no second holder ever gets in this way. A majority " +
				"is enough for that, too, since two majorities always have a node in common, and it does without the rest.",
			Seen:    "every buyer is told unavailable while two of three nodes are well",
			Cure:    "Ask for a majority of the nodes (red-minority-down).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Unavailable},
			Partner: "red-minority-down",
			Needs:   []stage.Server{stage.Redis, stage.Nodes},
			Quiet:   true,
			Setup:   trying("multi"),
			Scene:   oneNodeDies,
		},
		{
			ID: "red-minority-down", Group: group, Title: "A majority does without the node that is down",
			Sources: []lab.Source{
				{Document: "003", Section: "What Redlock is"},
			},
			Hypothesis:  "When a majority of three nodes has to grant the lock, one node that is down keeps nobody out.",
			Arrangement: "The same nodes, buyers and death of node 3.",
			Why: "Two of three nodes are a majority, and any two majorities share a node: as long as that node remembers whom it granted the lock, no two buyers can both have one. So one node may be down, and of five " +
				"two may. The buyers do not notice: the dead node refuses the connection at once, and the others decide. A node that hangs costs a little more, its timeout, which therefore has to be small beside the lease. " +
				"With two of three nodes down this lock is unavailable as well. What it rests on is the memory of the node that both majorities share.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Unavailable},
			Partner: "multi-one-node-down",
			Needs:   []stage.Server{stage.Redis, stage.Nodes},
			Quiet:   true,
			Setup:   trying("red"),
			Scene:   oneNodeDies,
		},
	}
}

// durable is a setup whose nodes keep on disk what they were told.
func durable(s lab.Setup) lab.Setup {
	s.Durable = true
	return s
}

func nodeRestarts() lab.Set {
	const group = "A node that voted restarts"
	return lab.Set{
		{
			ID: "red-node-restarts-empty", Group: group, Title: "A node restarts empty, and votes a second time",
			Sources: []lab.Source{
				{Document: "003", Section: "What Redlock is"},
				{Document: "003", Section: "The pros and cons of Redlock"},
			},
			Hypothesis: "When a node that granted the lock restarts without its data, a second buyer gets a majority while the first one works.",
			Arrangement: "Three Redis nodes that keep nothing on disk. Node 3 is cut off while buyer 1 gets the lock from nodes 1 and 2, and comes back. Node 2 is killed and restarted. " +
				"Buyer 2 tries, from another process. The lease is 15 s and renewed.",
			Why: "Two majorities of three nodes share one, here node 2, and that node has to say no to the second buyer. It was killed, came back in a moment with the same address and an empty memory, and says yes. With node 3, which was never " +
				"asked by the first buyer, that makes a majority. Each node did what it should, and neither of the buyers can notice. No majority was ever down, so it would not have looked like an outage. The algorithm's author " +
				"knows of it: a node that may have forgotten has to stay away for as long as the longest lease, or it must not forget.",
			Seen:    "two holders after a restart that nobody took notice of",
			Cure:    "Nodes that keep every write on disk before they answer (red-node-restarts-durable), or a restart that is delayed by the longest lease.",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "red-node-restarts-durable",
			Needs:   []stage.Server{stage.Redis, stage.Nodes},
			Quiet:   true,
			Setup:   trying("red"),
			Scene:   voterRestarts,
		},
		{
			ID: "red-node-restarts-durable", Group: group, Title: "A node that remembers its vote",
			Sources: []lab.Source{
				{Document: "003", Section: "What Redlock is"},
			},
			Hypothesis:  "When the nodes write to disk before they answer, a node that restarts still knows whom it granted the lock, and nobody else gets in.",
			Arrangement: "The same nodes, with appendonly yes and appendfsync always; the same cut, restart and buyers. Refused, buyer 2 comes again when buyer 1 is done.",
			Why: "The node reads its file when it starts and has buyer 1's key again, with what is left of its lease, since Redis writes the moment at which a key ends and not for how long it lives. So nodes 1 and 2 say no. " +
				"The price is a write to disk for every lock that is taken, before the answer. With the usual appendfsync everysec the process may be killed without loss, while a machine that loses its power may forget the last second: " +
				"a lock that was granted in it can then be granted twice. A delayed restart needs no disk, and costs a node for the length of a lease.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "red-node-restarts-empty",
			Needs:   []stage.Server{stage.Redis, stage.Nodes},
			Quiet:   true,
			Setup:   durable(trying("red")),
			Scene:   voterRestarts,
		},
	}
}

func clocksJump() lab.Set {
	const group = "Clocks that jump"
	return lab.Set{
		{
			ID: "red-clock-jump", Group: group, Title: "The clocks of two nodes jump",
			Sources: []lab.Source{
				{Document: "003", Section: "Martin's conclusion"},
				{Document: "003", Section: "The reply of Redis' author, Antirez"},
			},
			Hypothesis: "When the clocks of a majority of the nodes jump past the lease, a second buyer gets the lock while the first one works.",
			Arrangement: "Three Redis nodes. Buyer 1 has the lock on all of them, with a lease of 15 s that is renewed; then the clocks of nodes 2 and 3 are set one minute ahead. " +
				"Buyer 2 tries, from another process.",
			Why: "Redis ends a key by the wall clock of its machine. When an administrator sets that clock, or NTP corrects it by a step, every lease on that machine ends early by so much. One such node does no harm to a majority; two " +
				"of three do. Buyer 1 counts its lease by a clock of its own that cannot jump, has most of it left, and is right: it is the nodes that are wrong. This is one of the two points of the dispute about Redlock: it rests on clocks " +
				"that are roughly right, which its author calls a matter of good administration and its critic a dangerous assumption.",
			Seen:    "two holders after the clocks were set, both with time left",
			Cure:    "Clocks that are slewed and never stepped; every node instead of a majority (multi-clock-jump); a token that the database checks (paused-holder-fenced).",
			Expect:  finding.Breaks,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "multi-clock-jump",
			Needs:   []stage.Server{stage.Redis, stage.Nodes, stage.Clock},
			Quiet:   true,
			Setup:   trying("red"),
			Scene:   twoClocksJump,
		},
		{
			ID: "multi-clock-jump", Group: group, Title: "The one clock that is right has a veto",
			Sources: []lab.Source{
				{Document: "000", Section: "How MultiLock works"},
				{Document: "003", Section: "Martin's conclusion"},
			},
			Hypothesis:  "When every node has to grant the lock, one node whose clock is right keeps the second buyer out.",
			Arrangement: "The same nodes, lease, jump and buyers. Refused, buyer 2 comes again when buyer 1 is done.",
			Why: "The two nodes with the wrong time have dropped the key and would grant it again. Node 1 has it still and says no, and as every node has a veto, that is enough. Only a jump of all three clocks within one lease would let " +
				"the second buyer in: when they are set by the same faulty source, that is not out of the question. Buyer 1 has lost something, though: with its lock on one node of three it is told so at its next renewal, or when it releases, " +
				"and has to stop. And the veto has its price: one node that is down keeps everybody out.",
			Expect:  finding.Holds,
			About:   []finding.Kind{finding.Overlaps},
			Partner: "red-clock-jump",
			Needs:   []stage.Server{stage.Redis, stage.Nodes, stage.Clock},
			Quiet:   true,
			Setup:   trying("multi"),
			Scene:   twoClocksJump,
		},
	}
}
