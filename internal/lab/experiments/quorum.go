package experiments

import (
	"seckill/internal/lab"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/testbed"
)

// quorums are the experiments about nodes that vote: all of them have to grant the
// lock, or a majority.
func quorums() []comparison {
	nodes := []testbed.Server{testbed.Redis, testbed.Nodes}
	return []comparison{
		{text: "node-down", scenario: oneNodeDies, needs: nodes, quiet: true, cases: []setupCase{
			{id: "multi-one-node-down", setup: renewedTryOnce("multi"), breaks: kinds{finding.Unavailable}},
			{id: "red-minority-down", setup: renewedTryOnce("red"), holds: kinds{finding.Unavailable}},
		}},
		{text: "node-restarts", scenario: voterRestarts, needs: nodes, quiet: true, cases: []setupCase{
			{id: "red-node-restarts-empty", setup: renewedTryOnce("red"), breaks: kinds{finding.Overlaps}},
			{id: "red-node-restarts-durable", setup: durable(renewedTryOnce("red")), holds: kinds{finding.Overlaps}},
		}},
		{text: "clock-jump", scenario: twoClocksJump, needs: append(nodes, testbed.Clock), quiet: true, cases: []setupCase{
			{id: "red-clock-jump", setup: renewedTryOnce("red"), breaks: kinds{finding.Overlaps}},
			{id: "multi-clock-jump", setup: renewedTryOnce("multi"), holds: kinds{finding.Overlaps}},
		}},
	}
}

// durable is a setup whose nodes write to disk before they answer.
func durable(s lab.Setup) lab.Setup {
	s.Durable = true
	return s
}
