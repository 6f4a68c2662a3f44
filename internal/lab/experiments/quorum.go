package experiments

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// quorums are the experiments about nodes that vote: all of them have to grant the
// lock, or a majority.
func quorums() []comparison {
	nodes := []testbed.Server{testbed.Redis, testbed.Nodes}
	real := []testbed.Server{testbed.RedisServer, testbed.Nodes} // they write to disk, or their clocks are set
	return []comparison{
		{text: "node-down", scenario: oneNodeDies, needs: nodes, quiet: true, cases: []setupCase{
			{id: "multi-one-node-down", setup: renewedTryOnce("multi"), breaks: kinds{finding.Unavailable}},
			{id: "red-minority-down", setup: renewedTryOnce("red"), holds: kinds{finding.Unavailable}},
			{id: "red-two-of-three-down", setup: withNodes(3, 2, renewedTryOnce("red")), breaks: kinds{finding.Unavailable}, partner: "red-two-of-five-down"},
			{id: "red-two-of-five-down", setup: withNodes(5, 2, renewedTryOnce("red")), holds: kinds{finding.Unavailable}, partner: "red-two-of-three-down"},
			{id: "single-redis-down", setup: withNodes(1, 1, renewedTryOnce("reentrant")), breaks: kinds{finding.Unavailable}},
		}, parameters: []lab.Parameter{
			nodesOf("nodes", i18n.F("independent Redis nodes"), 3, 7, func(s *lab.Setup) *int { return &s.Nodes }, majorityNodes),
			nodesOf("down", i18n.F("nodes that are killed"), 1, 3, func(s *lab.Setup) *int { return &s.Down }, 1),
		}},
		{text: "one-machine", scenario: machineRestarts, needs: nodes, quiet: true, cases: []setupCase{
			{id: "three-nodes-one-server", setup: listed(flawed.OneServer, renewedTryOnce("red")), breaks: kinds{finding.Overlaps}},
			{id: "three-nodes-three-servers", setup: renewedTryOnce("red"), holds: kinds{finding.Overlaps}},
		}},
		{text: "node-restarts", scenario: voterRestarts, needs: nodes, quiet: true, cases: []setupCase{
			{id: "red-node-restarts-empty", setup: renewedTryOnce("red"), breaks: kinds{finding.Overlaps}},
			{id: "red-node-restarts-durable", setup: durable(renewedTryOnce("red")), needs: real, holds: kinds{finding.Overlaps}},
		}},
		{text: "clock-jump", scenario: twoClocksJump, needs: append(real, testbed.Clock), quiet: true, cases: []setupCase{
			{id: "red-clock-jump", setup: renewedTryOnce("red"), breaks: kinds{finding.Overlaps}},
			{id: "multi-clock-jump", setup: renewedTryOnce("multi"), holds: kinds{finding.Overlaps}},
		}},
		{text: "clock-drift", scenario: twoClocksDrift, needs: append(real, testbed.Clock), quiet: true, cases: []setupCase{
			{id: "red-clock-drift-beyond", setup: drifting(250), breaks: kinds{finding.Overlaps}},
			{id: "red-clock-drift-within", setup: drifting(1), holds: kinds{finding.Overlaps}},
		}, parameters: []lab.Parameter{lab.CountParameter("drift", i18n.F("thousandths by which two clocks run too fast"), 1, 500,
			func(s lab.Setup) int { return s.Drift }, func(s *lab.Setup, n int) { s.Drift = n })}},
	}
}

// driftLease is so long that the time by which a holder is told early is much longer than a busy
// machine delays a timer.
const driftLease = 6 * time.Second

// drifting is a setup with a fixed lease whose nodes' clocks run too fast by thousandths.
func drifting(thousandths int) lab.Setup {
	return lab.Setup{Policy: policyFor("red", driftLease, patience), Drift: thousandths}
}

// withNodes is a setup with that many nodes, of which some are killed.
func withNodes(n, down int, s lab.Setup) lab.Setup {
	s.Nodes, s.Down = n, down
	return s
}

// listed is a setup with a program of the documents.
func listed(of flawed.Name, s lab.Setup) lab.Setup {
	s.Program = of
	return s
}

// nodesOf is a number of nodes, of a lock that uses several.
func nodesOf(name string, about i18n.Text, least, most int, field func(*lab.Setup) *int, usual int) lab.Parameter {
	return lab.CountParameter(name, about, least, most,
		func(s lab.Setup) int { return cmp.Or(*field(&s), usual) }, func(s *lab.Setup, n int) { *field(s) = n },
	).For(func(s lab.Setup) bool { return lock.StoreOf(s.Policy.Lock) == lock.InNodes })
}

// durable is a setup whose nodes write to disk before they answer.
func durable(s lab.Setup) lab.Setup {
	s.Durable = true
	return s
}

// oneNodeDies lets one buyer come before, and two after one of three nodes is killed, or as many
// of as many as the setup says. A lock on a single server has only that one.
func oneNodeDies(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	nodes := t.OwnNodes(cmp.Or(setup.Nodes, majorityNodes))
	if !e.usesNodes() {
		nodes = nodes[:1]
	}
	var servers []string
	for i, node := range nodes {
		servers = append(servers, fmt.Sprintf("node %d", i+1))
		e.addServer(servers[i], node)
	}
	processes := []*lockclient.Client{e.start("process-1"), e.start("process-2")}

	before := e.tryUntilGranted(processes[0], firstBuyer)
	alive := max(0, len(nodes)-cmp.Or(setup.Down, 1))
	for i := alive; i < len(nodes); i++ {
		e.kill(servers[i], nodes[i])
	}
	killed := i18n.Of(i18n.Name(servers[alive]))
	for _, name := range servers[alive+1:] {
		killed = i18n.F("%s and %s", killed, i18n.Name(name))
	}
	t.Fault(i18n.F("%s down", killed))
	t.Sleep(overlapTime / 3)
	late := []string{secondBuyer, "buyer 3"}
	var refused []string
	var last lockclient.Grant
	for i, who := range late {
		var granted bool
		if last, granted = e.tryOnce(processes[(i+1)%len(processes)], who); !granted {
			refused = append(refused, who)
		}
		t.Sleep(overlapTime / 3)
	}

	t.Found(finding.Unavailable, len(refused))
	t.Measure(i18n.F("served with nodes down"), float64(len(late)-len(refused)), i18n.F("of %d", len(late)))
	t.Measure(i18n.F("an answer took"), millis(last.Waited()), i18n.F("ms"))
	evidence := e.evidence()
	story := witness.Story{
		Key: e.key, Who: append([]string{firstBuyer}, late...), From: before.Asked, To: last.At,
		Summary: i18n.F("Buyer 1 gets the lock at %s and releases it. Of %d nodes, %s killed. The others still grant the lock to buyer 2 and buyer 3, the last time at %s.",
			witness.At(before.At), len(nodes), isAre(killed, len(nodes)-alive), witness.At(last.At)),
	}
	if len(refused) > 0 {
		story.Kind = finding.Unavailable
		both := i18n.Of(i18n.Name(refused[0]))
		for _, who := range refused[1:] {
			both = i18n.F("%s and to %s", both, i18n.Name(who))
		}
		story.Summary = i18n.F("Buyer 1 gets the lock at %s and releases it. Of %d nodes, %s killed: the lock is unavailable to %s, though nobody holds it.",
			witness.At(before.At), len(nodes), isAre(killed, len(nodes)-alive), both)
		if len(nodes) == 1 {
			story.Summary = i18n.F("Buyer 1 gets the lock at %s and releases it. Then the only server is killed, and the lock is unavailable to %s, though nobody holds it.", witness.At(before.At), both)
		}
		for _, who := range refused {
			story.Wrong = append(story.Wrong, witness.Wrong{Who: who, Mark: finding.Refuses})
		}
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// isAre is one thing that is, or several that are.
func isAre(what i18n.Text, n int) i18n.Text {
	if n == 1 {
		return i18n.F("%s is", what)
	}
	return i18n.F("%s are", what)
}

// tryOnce makes a buyer try, work and release. It is not granted the lock if too many nodes do
// not answer. A release is repeated: a majority has granted the lock, so that only a busy machine
// keeps it from taking the release in time.
func (e *ownServers) tryOnce(at *lockclient.Client, who string) (g lockclient.Grant, granted bool) {
	g, err := at.Acquire(e.Context(), e.request(who))
	if errors.Is(err, lock.ErrUnavailable) {
		return g, false
	}
	e.Must(err)
	e.Sleep(overlapTime / 3)
	e.Until("enough nodes to take the release in time", func() bool {
		err := at.Release(e.Context(), g.Lease)
		if !errors.Is(err, lock.ErrUnavailable) {
			e.Must(err)
		}
		return err == nil
	})
	return g, true
}

// tryUntilGranted repeats tryOnce while all nodes are up: on a busy machine they may answer too late.
func (e *ownServers) tryUntilGranted(at *lockclient.Client, who string) (g lockclient.Grant) {
	e.Until("enough nodes to answer in time", func() (granted bool) {
		g, granted = e.tryOnce(at, who)
		return granted
	})
	return g
}

// voterRestarts lets a bare majority grant the lock, and restarts one node of it.
func voterRestarts(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	var keeps []string
	if setup.Durable {
		keeps = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	nodes := t.OwnNodes(majorityNodes, keeps...)
	way := testkit.NewProxy(t, nodes[2].Addr())
	e.addServer("node 1", nodes[0])
	e.addServer("node 2", nodes[1])
	e.addServerAt("node 3", nodes[2], way.Addr())
	first, other := e.start("process-1"), e.start("process-2")

	way.Cut()
	back := t.Fault(i18n.F("node 3 is cut off"))
	g := e.firstAcquires(first)
	way.Reset()
	back()
	up := t.Fault(i18n.F("%s restarts", i18n.Name("node 2")))
	e.kill("node 2", nodes[1])
	nodes[1].Restart()
	e.observeServer("node 2", nodes[1])
	up()
	e.noteReturn(i18n.F("%s is back", i18n.Name("node 2")))
	e.secondTries(first, g, other)
}

// machineRestarts restarts one machine while a client holds the lock. The three nodes are three
// machines, or three addresses of one.
func machineRestarts(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	machine := t.OwnRedis()
	name := "node 1"
	if setup.Program == flawed.OneServer {
		name = "the server"
		e.observeServer(name, machine)
		for range majorityNodes {
			e.addrs = append(e.addrs, testkit.NewProxy(t, machine.Addr()).Addr())
		}
	} else {
		e.addServer(name, machine)
		for i, other := range t.OwnNodes(majorityNodes - 1) {
			e.addServer(fmt.Sprintf("node %d", i+2), other)
		}
	}
	first, other := e.start("process-1"), e.start("process-2")

	g := e.firstAcquires(first)
	up := t.Fault(i18n.F("%s restarts", i18n.Name(name)))
	e.kill(name, machine)
	machine.Restart()
	e.observeServer(name, machine)
	up()
	e.noteReturn(i18n.F("%s is back", i18n.Name(name)))
	e.secondTries(first, g, other)
}

// clockJump is longer than any lease.
const clockJump = time.Minute

// twoClocksJump sets the clocks of two nodes wrong while a client holds the lock. The clock of
// the first node stays right, because multi retries for a while once it has the first node.
func twoClocksJump(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	e.addServer("node 1", t.OwnRedis())
	var clocks []*testkit.Clock
	for _, name := range []string{"node 2", "node 3"} {
		node, clock := t.OwnRedisWithClock()
		e.addServer(name, node)
		clocks = append(clocks, clock)
	}
	first, other := e.start("process-1"), e.start("process-2")

	g := e.firstAcquires(first)
	for _, clock := range clocks {
		clock.Jump(clockJump)
	}
	t.Fault(i18n.F("clocks 2 and 3: %.0f s ahead", clockJump.Seconds()))()
	t.Sleep(overlapTime / 3)
	e.secondTries(first, g, other)
}

// twoClocksDrift makes the clocks of two nodes run too fast. The first buyer works until it is told
// that its lease is over; a second one waits.
func twoClocksDrift(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	e.addServer("node 1", t.OwnRedis())
	for _, name := range []string{"node 2", "node 3"} {
		node, clock := t.OwnRedisWithClock()
		clock.Drift(setup.Drift)
		e.addServer(name, node)
	}
	first, other := e.start("process-1"), e.start("process-2")
	e.warmUp(first)
	e.warmUp(other)

	g := e.take(first, e.request(firstBuyer))
	t.Fault(i18n.F("clocks 2 and 3 run %.1f %% too fast", float64(setup.Drift)/10))
	waits := e.startTaking(other, e.request(secondBuyer))
	told := e.workUntilLoss(first, g.Lease, setup.Policy.TTL())
	e.release(first, g.Lease)
	later := waits()
	t.Sleep(overlapTime)
	e.release(other, later.Lease)

	evidence := e.evidence()
	if told > 0 {
		t.Measure(i18n.F("the holder was told after its grant"), millis(time.Duration(told-g.At)), i18n.F("ms"))
	}
	t.Measure(i18n.F("the second buyer was let in after it"), millis(time.Duration(later.At-g.At)), i18n.F("ms"))
	story := witness.Story{
		Key: e.key, Who: []string{firstBuyer, secondBuyer}, From: g.Asked, To: max(later.At, told),
		Summary: i18n.F("Buyer 1 has the lock for %d ms from %s on, and is told at %s that it has to stop. The fast nodes give the lock to buyer 2 at %s, later than that.",
			setup.Policy.LockTTLMS, witness.At(g.At), witness.At(told), witness.At(later.At)),
	}
	if told == 0 || later.At < told {
		story.Kind = finding.Overlaps
		story.Summary = i18n.F("Buyer 1 has the lock for %d ms from %s on, and by its own clock it still has it at %s. For the fast nodes the lease is over by then: they give the lock to buyer 2.",
			setup.Policy.LockTTLMS, witness.At(g.At), witness.At(later.At))
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}
