package chaos

import (
	"testing"

	"seckill/internal/testkit"
	"seckill/test/harness"
)

// TestSoakVitessReparent has the shards of a running sale change their primaries, one after the other and as an
// operator plans it: for an upgrade of a server, say. Buyers buy and pay meanwhile, under both flows.
func TestSoakVitessReparent(t *testing.T) {
	testkit.Soak(t)
	vitess := newVitessServers(t)
	var tablets [][2]*testkit.VitessTablet
	for i, shard := range vitessShards {
		var both [2]*testkit.VitessTablet
		for j := range both {
			both[j] = vitess.Tablet(shard, testkit.NewMySQL(t, testkit.VitessFlags(1+2*i+j)...), "vt_seckill")
		}
		tablets = append(tablets, both)
		vitess.Control("PlannedReparentShard", "seckill/"+shard, "--new-primary", both[0].Alias)
	}
	n := 0
	reparent := func() {
		shard := n % len(vitessShards)
		next := tablets[shard][(1+n/len(vitessShards))%2]
		n++
		vitess.Control("PlannedReparentShard", "seckill/"+vitessShards[shard], "--new-primary", next.Alias)
	}
	c := openLifecycleChaos(t, harness.Number(t, "SECKILL_TEST_ROUNDS", 8), lifecycleDatabase{
		name: "Vitess", where: vitess.Gate(), locked: lifecycleLocked(), hands: func(c *lifecycleChaos) [][]strike {
			return [][]strike{{c.watch.step("PlannedReparentShard", reparent)}}
		},
	})
	c.watch = openWatch(c)
	c.run()
}
