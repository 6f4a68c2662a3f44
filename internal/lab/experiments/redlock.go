package experiments

import (
	"context"
	"errors"
	"fmt"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/testbed"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

const (
	// farAway is a round trip to a node that takes longer than shortGrant, the lease, and less
	// than the time limit of a node. The nodes are asked one after the other.
	farAway    = 600 * time.Millisecond
	shortGrant = 500 * time.Millisecond
	// givenTime is how long a buyer waits for an answer.
	givenTime = 1500 * time.Millisecond
	// ownedLong is a lease that outlasts everything, and cleaned how long a clean-up may take.
	ownedLong = 20 * time.Second
	cleaned   = 3 * time.Second
)

// redlocks are the experiments about the steps of Redlock, each beside the same algorithm
// without that step.
func redlocks() []comparison {
	red := func(lease time.Duration, of flawed.Name) lab.Setup {
		return lab.Setup{Policy: policyFor("red", lease, 0), Watchdog: longWatchdog, Program: of}
	}
	needs := []testbed.Server{testbed.Redis, testbed.Nodes}
	return []comparison{
		{text: "validity", scenario: slowNodesGrant, needs: needs, quiet: true, cases: []setupCase{
			{id: "redlock-validity-unchecked", setup: red(shortGrant, flawed.RedlockUnchecked), breaks: kinds{finding.Overlaps}},
			{id: "redlock-validity-checked", setup: red(shortGrant, ""), holds: kinds{finding.Overlaps}},
		}},
		{text: "node-without-limit", scenario: oneNodeHangs, needs: needs, quiet: true, cases: []setupCase{
			{id: "redlock-node-without-limit", setup: red(ownedLong, flawed.RedlockPatient), breaks: kinds{finding.Unavailable}},
			{id: "redlock-node-with-limit", setup: red(ownedLong, ""), holds: kinds{finding.Unavailable}},
		}},
		{text: "release-on-all", scenario: grantIsNotHeard, needs: needs, quiet: true, cases: []setupCase{
			{id: "redlock-releases-some", setup: red(ownedLong, flawed.RedlockForgetful), breaks: kinds{finding.LockedOut}},
			{id: "redlock-releases-all", setup: red(ownedLong, ""), holds: kinds{finding.LockedOut}},
		}},
		{text: "twice-the-wait", scenario: diesAmongNodes, needs: needs, quiet: true, cases: []setupCase{
			{id: "multilock-twice-the-wait", setup: waitingMulti(flawed.MultiLockTwice), breaks: kinds{finding.StuckKeys}},
			{id: "multi-lease-as-asked", setup: waitingMulti(""), holds: kinds{finding.StuckKeys}},
		}},
	}
}

const (
	// multiLease is the lease of the buyers of [diesAmongNodes], and multiWait how long they wait.
	multiLease = 800 * time.Millisecond
	multiWait  = 4 * time.Second
	// hangsLong is a time limit of a node that is over long after the buyer that waits for it was killed.
	hangsLong = 10 * time.Second
)

// waitingMulti is a setup with a lease that is much shorter than the wait.
func waitingMulti(of flawed.Name) lab.Setup {
	return lab.Setup{Policy: policyFor("multi", multiLease, multiWait), Watchdog: longWatchdog, Program: of}
}

// nodesBehind starts nodes that a process reaches through a proxy each, and returns the
// proxies and what makes a client use them.
func (s *ownServers) nodesBehind(nodes []*testkit.RedisServer, limit time.Duration) (ways []*testkit.Proxy, through func(*lockclient.Config)) {
	var addrs []string
	for i, node := range nodes {
		s.addServer(fmt.Sprintf("node %d", i+1), node)
		way := testkit.NewProxy(s, node.Addr())
		ways, addrs = append(ways, way), append(addrs, way.Addr())
	}
	return ways, func(config *lockclient.Config) { config.NodeAddrs, config.NodeTimeout = addrs, limit }
}

// slowNodesGrant makes the nodes answer the first buyer later than the lease that it asked for.
// When it has its answer the second buyer tries.
func slowNodesGrant(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	ways, through := e.nodesBehind(t.OwnNodes(majorityNodes), longNodeTimeout)
	far := e.clients.start("process-1", through)
	near := e.start("process-2")
	e.warmUp(far)
	for _, way := range ways {
		way.Latency(farAway)
	}
	t.Fault(i18n.F("%d ms to each node", farAway.Milliseconds()))

	g, err := far.Acquire(t.Context(), e.request(firstBuyer))
	refused := errors.Is(err, lock.ErrUnavailable)
	if !refused {
		e.Must(err)
	}
	next := e.take(near, e.request(secondBuyer))
	t.Sleep(overlapTime)
	if !refused {
		e.release(far, g.Lease)
	}
	e.release(near, next.Lease)

	evidence := e.evidence()
	t.Measure(i18n.F("buyer 1 was answered after"), millis(g.Waited()), i18n.F("ms"))
	story := witness.Story{
		Key: e.key, Who: []string{firstBuyer, secondBuyer}, From: g.Asked, To: next.At,
		Summary: i18n.F("Buyer 1 asks for a lease of %d ms. The answers of the nodes take longer than that: at %s it is told that it does not have the lock, and buyer 2 gets it at %s.",
			setup.Policy.LockTTLMS, witness.At(g.At), witness.At(next.At)),
	}
	if judge.Judge(evidence).Anomalies[finding.Overlaps] > 0 {
		story.Kind = finding.Overlaps
		story.Summary = i18n.F("Buyer 1 asks for a lease of %d ms. The last node has answered at %s, after %d ms, and buyer 1 takes the lock; on most nodes it has expired by then, and at %s buyer 2 gets it, too.",
			setup.Policy.LockTTLMS, witness.At(g.At), g.Waited().Milliseconds(), witness.At(next.At))
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// oneNodeHangs makes one of three nodes hang, and lets a buyer try that gives up after a while.
func oneNodeHangs(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	ways, through := e.nodesBehind(t.OwnNodes(majorityNodes), nodeTimeout)
	process := e.clients.start("process-1", through)
	before := e.tryUntilGranted(process, firstBuyer)
	ways[0].BlackholeReplies()
	t.Fault(i18n.F("node 1 does not answer"))
	req := e.request(secondBuyer)
	req.Timeout = givenTime
	g, err := process.Acquire(t.Context(), req)
	late := errors.Is(err, context.DeadlineExceeded)
	if !late {
		e.Must(err)
		t.Sleep(overlapTime / 3)
		_ = process.Release(t.Context(), g.Lease) // one node does not answer; the event log records its result
	}

	t.Found(finding.Unavailable, 0)
	t.Measure(i18n.F("the answer took"), millis(g.Waited()), i18n.F("ms"))
	evidence := e.evidence()
	story := witness.Story{
		Key: e.key, Who: []string{firstBuyer, secondBuyer}, From: before.Asked, To: g.At,
		Summary: i18n.F("Buyer 1 gets the lock at %s. Then node 1 hangs. Buyer 2 asks at %s, and the two others grant it the lock at %s.",
			witness.At(before.At), witness.At(g.Asked), witness.At(g.At)),
	}
	if late {
		t.Found(finding.Unavailable, 1)
		story.Kind = finding.Unavailable
		story.Wrong = []witness.Wrong{{Who: secondBuyer, Mark: finding.Refuses}}
		story.Summary = i18n.F("Buyer 1 gets the lock at %s. Then node 1 hangs. Buyer 2 asks at %s, waits for node 1, and gives up at %s; nodes 2 and 3 are well, and were not asked in time.",
			witness.At(before.At), witness.At(g.Asked), witness.At(g.At))
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// grantIsNotHeard makes node 3 grant the lock to a buyer that does not hear of it. When that
// buyer has released, node 1 is killed, and the next buyer needs nodes 2 and 3.
func grantIsNotHeard(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	nodes := t.OwnNodes(majorityNodes)
	ways, through := e.nodesBehind(nodes, longNodeTimeout)
	first, second := e.clients.start("process-1", through), e.start("process-2")
	e.warmUp(first)

	ways[2].BlackholeReplies()
	over := t.Fault(i18n.F("node 3's replies to process-1 are lost"))
	g := e.take(first, e.request(firstBuyer))
	ways[2].Reset()
	over()
	t.Sleep(overlapTime / 3)
	e.release(first, g.Lease)
	released := time.Now().UnixNano()
	e.awaitFree("node 3", cleaned)
	e.kill("node 1", nodes[0])
	t.Fault(i18n.F("node 1 is down"))
	next, err := second.Acquire(t.Context(), e.request(secondBuyer))
	refused := errors.Is(err, lock.ErrNotAcquired) || errors.Is(err, lock.ErrUnavailable)
	if !refused {
		e.Must(err)
		t.Sleep(overlapTime / 3)
		e.release(second, next.Lease)
	}

	evidence := e.evidence()
	story := witness.Story{
		Key: e.key, Who: []string{firstBuyer, secondBuyer}, From: g.Asked, To: next.At,
		Summary: i18n.F("Node 3 grants buyer 1 the lock, and its reply is lost. Buyer 1 has it by the two others, and releases it at %s on all three. Node 1 is killed, and at %s buyer 2 gets the lock from nodes 2 and 3.",
			witness.At(released), witness.At(next.At)),
	}
	t.Found(finding.LockedOut, 0)
	if refused {
		t.Found(finding.LockedOut, 1)
		story.Kind = finding.LockedOut
		story.Wrong = []witness.Wrong{{Who: secondBuyer, Mark: finding.Refuses}}
		story.Summary = i18n.F("Node 3 grants buyer 1 the lock, and its reply is lost. Buyer 1 has it by the two others, and releases it at %s on these two. Node 1 is killed, and at %s buyer 2 is refused: node 3 still has buyer 1's key.",
			witness.At(released), witness.At(next.At))
	}
	t.Witness(witness.Tell(evidence, story))
	j := judge.Judge(evidence)
	for _, kind := range []finding.Kind{finding.Overlaps, finding.WrongReleases} {
		t.Found(kind, j.Anomalies[kind])
	}
}

// diesAmongNodes kills buyer 1's process when it has the lock on two of three nodes, and waits for the
// answer of the third. Buyer 2 waits much longer than the lease.
func diesAmongNodes(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	ways, through := e.nodesBehind(t.OwnNodes(majorityNodes), hangsLong)
	first, second := e.clients.start("process-1", through), e.start("process-2")
	e.warmUp(first)

	ways[2].BlackholeReplies()
	over := t.Fault(i18n.F("node 3's replies to process-1 are lost"))
	asked := time.Now().UnixNano()
	asks := t.Go(func() { _, _ = first.Acquire(t.Context(), e.request(firstBuyer)) }) // it has no answer: its process is killed
	for _, node := range e.observed[:2] {
		node.Await("buyer 1's key on "+node.server, func(s judge.Sample) bool { return s.Stored.Owner != "" })
	}
	first.Kill()
	died := time.Now().UnixNano()
	asks()
	over()
	next, err := second.Acquire(t.Context(), e.request(secondBuyer))
	refused := errors.Is(err, lock.ErrNotAcquired)
	ended := time.Now().UnixNano()
	if !refused {
		e.Must(err)
		t.Sleep(overlapTime / 3)
		e.release(second, next.Lease)
	}

	t.Measure(i18n.F("buyer 2 had its answer after the death"), millis(time.Duration(ended-died)), i18n.F("ms"))
	t.Found(finding.StuckKeys, 0)
	story := witness.Story{
		Key: e.key, Who: []string{firstBuyer, secondBuyer}, From: asked, To: ended,
		Summary: i18n.F("Buyer 1 asks for a lease of %d ms. All three nodes have its key, and two have told it so, when its process dies at %s. The keys expire, and buyer 2 gets the lock at %s.",
			setup.Policy.LockTTLMS, witness.At(died), witness.At(ended)),
	}
	if refused {
		t.Found(finding.StuckKeys, 1)
		story.Kind = finding.StuckKeys
		story.Wrong = []witness.Wrong{{Who: secondBuyer, Mark: finding.Refuses}}
		story.Summary = i18n.F("Buyer 1 asks for a lease of %d ms. All three nodes have its key, and two have told it so, when its process dies at %s. The keys stay there, and at %s buyer 2 gives up: %d ms after the death, though nobody holds the lock.",
			setup.Policy.LockTTLMS, witness.At(died), witness.At(ended), time.Duration(ended-died).Milliseconds())
	}
	t.Witness(witness.Tell(e.evidence(), story))
}

// awaitFree waits until a server has no lock any more, but not for longer than limit: whether
// it ever is free is what the experiment is about.
func (s *ownServers) awaitFree(server string, limit time.Duration) {
	for _, o := range s.observed {
		if o.server != server {
			continue
		}
		for deadline := time.Now().Add(limit); time.Now().Before(deadline); s.Sleep(overlapTime / 10) {
			if samples := o.Samples(); len(samples) > 0 && samples[len(samples)-1].Stored.Owner == "" && samples[len(samples)-1].Err == "" {
				return
			}
		}
	}
}
