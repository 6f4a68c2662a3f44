package experiments

import (
	"cmp"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/flawed"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
	"seckill/internal/lock"
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
	s.Listing = of
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
