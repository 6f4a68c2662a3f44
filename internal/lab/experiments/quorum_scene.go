package experiments

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/actor"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

// oneNodeDies has buyers come before and after one of three nodes is killed.
func oneNodeDies(p *lab.Play, with lab.Setup) {
	e := assemble(p, with)
	nodes := p.OwnNodes(redNodes)
	for i, node := range nodes {
		e.join(fmt.Sprintf("node %d", i+1), node)
	}
	shops := []*actor.Actor{e.hire("shop-1"), e.hire("shop-2")}

	before, granted := e.visit(shops[0], firstBuyer)
	if !granted {
		p.Fatalf("the lock is not to be had though all nodes are up")
	}
	e.kill("node 3", nodes[2])
	p.Fault("node 3 is down")
	p.Pause(besides / 3)
	late := []string{nextBuyer, "buyer 3"}
	var refused []string
	var last actor.Grant
	for i, who := range late {
		if last, granted = e.visit(shops[(i+1)%len(shops)], who); !granted {
			refused = append(refused, who)
		}
		p.Pause(besides / 3)
	}

	p.Found(finding.Unavailable, len(refused))
	p.Measure("served with a node down", float64(len(late)-len(refused)), fmt.Sprintf("of %d", len(late)))
	p.Measure("an answer took", millis(last.Waited()), "ms")
	evidence := e.evidence()
	story := judge.Story{
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
			story.Wrong = append(story.Wrong, judge.Wrong{Who: who, Mark: finding.Refuses})
		}
	}
	p.Witness(judge.Tell(evidence, story))
	p.Judge(evidence)
}

// visit has a buyer try, work and go. It is not granted the lock where too many nodes
// are silent.
func (e *ensemble) visit(at *actor.Actor, who string) (g actor.Grant, granted bool) {
	g, err := at.Acquire(e.Context(), e.ask(who))
	if errors.Is(err, lock.ErrUnavailable) {
		return g, false
	}
	e.must(err)
	e.Pause(besides / 3)
	e.must(at.Release(e.Context(), g.Lease))
	return g, true
}

// voterRestarts has a lock be granted by just a majority, of which one node restarts.
func voterRestarts(p *lab.Play, with lab.Setup) {
	e := assemble(p, with)
	var keeps []string
	if with.Durable {
		keeps = []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	nodes := p.OwnNodes(redNodes, keeps...)
	way := testkit.NewProxy(p, nodes[2].Addr())
	e.join("node 1", nodes[0])
	e.join("node 2", nodes[1])
	e.joinBehind("node 3", nodes[2], way.Addr())
	first, other := e.hire("shop-1"), e.hire("shop-2")

	way.Cut()
	back := p.Fault("node 3 is cut off")
	g := e.begin(first)
	way.Reset()
	back()
	up := p.Fault("node 2 restarts")
	e.kill("node 2", nodes[1])
	nodes[1].Restart()
	e.watch("node 2", nodes[1])
	up()
	e.intrude(first, g, other)
}

// clockJump is further than any lease.
const clockJump = time.Minute

// twoClocksJump sets the clocks of two nodes wrong while somebody holds the lock. The
// first node's stays right, since who has that node may insist for a while.
func twoClocksJump(p *lab.Play, with lab.Setup) {
	e := assemble(p, with)
	e.join("node 1", p.OwnRedis())
	var clocks []*testkit.Clock
	for _, name := range []string{"node 2", "node 3"} {
		node, clock := p.OwnRedisWithClock()
		e.join(name, node)
		clocks = append(clocks, clock)
	}
	first, other := e.hire("shop-1"), e.hire("shop-2")

	g := e.begin(first)
	for _, clock := range clocks {
		clock.Jump(clockJump)
	}
	p.Fault(fmt.Sprintf("clocks 2 and 3: %.0f s ahead", clockJump.Seconds()))()
	p.Pause(besides / 3)
	e.intrude(first, g, other)
}
