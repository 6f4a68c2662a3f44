package experiments

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lab/witness"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// oneNodeDies lets one buyer come before, and two after one of three nodes is killed.
func oneNodeDies(t *lab.Trial, setup lab.Setup) {
	e := newOwnServers(t, setup)
	nodes := t.OwnNodes(majorityNodes)
	for i, node := range nodes {
		e.addServer(fmt.Sprintf("node %d", i+1), node)
	}
	processes := []*lockclient.Client{e.start("process-1"), e.start("process-2")}

	before, granted := e.tryOnce(processes[0], firstBuyer)
	if !granted {
		t.Fatalf("the lock is not to be had though all nodes are up")
	}
	e.kill("node 3", nodes[2])
	t.Fault("node 3 is down")
	t.Sleep(overlapTime / 3)
	late := []string{secondBuyer, "buyer 3"}
	var refused []string
	var last lockclient.Grant
	for i, who := range late {
		if last, granted = e.tryOnce(processes[(i+1)%len(processes)], who); !granted {
			refused = append(refused, who)
		}
		t.Sleep(overlapTime / 3)
	}

	t.Found(finding.Unavailable, len(refused))
	t.Measure("served with a node down", float64(len(late)-len(refused)), fmt.Sprintf("of %d", len(late)))
	t.Measure("an answer took", millis(last.Waited()), "ms")
	evidence := e.evidence()
	story := witness.Story{
		Key: e.key, Who: append([]string{firstBuyer}, late...), From: before.Asked, To: last.At,
		Summary: func(when func(int64) string) string {
			return fmt.Sprintf("Buyer 1 gets the lock at %s. Then node 3 is killed. The two others grant the lock to buyer 2 and buyer 3 all the same, the last time at %s.",
				when(before.At), when(last.At))
		},
	}
	if len(refused) > 0 {
		story.Kind = finding.Unavailable
		story.Summary = func(when func(int64) string) string {
			return fmt.Sprintf("Buyer 1 gets the lock at %s. Then node 3 is killed, and the lock is unavailable to %s, though nobody holds it and two nodes are well.",
				when(before.At), strings.Join(refused, " and to "))
		}
		for _, who := range refused {
			story.Wrong = append(story.Wrong, witness.Wrong{Who: who, Mark: finding.Refuses})
		}
	}
	t.Witness(witness.Tell(evidence, story))
	t.Judge(evidence)
}

// tryOnce makes a buyer try, work and release. It is not granted the lock if too many nodes do
// not answer.
func (e *ownServers) tryOnce(at *lockclient.Client, who string) (g lockclient.Grant, granted bool) {
	g, err := at.Acquire(e.Context(), e.request(who))
	if errors.Is(err, lock.ErrUnavailable) {
		return g, false
	}
	e.must(err)
	e.Sleep(overlapTime / 3)
	e.must(at.Release(e.Context(), g.Lease))
	return g, true
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
	back := t.Fault("node 3 is cut off")
	g := e.firstAcquires(first)
	way.Reset()
	back()
	up := t.Fault("node 2 restarts")
	e.kill("node 2", nodes[1])
	nodes[1].Restart()
	e.observeServer("node 2", nodes[1])
	up()
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
	t.Fault(fmt.Sprintf("clocks 2 and 3: %.0f s ahead", clockJump.Seconds()))()
	t.Sleep(overlapTime / 3)
	e.secondTries(first, g, other)
}
