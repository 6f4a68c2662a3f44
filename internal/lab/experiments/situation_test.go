package experiments

import (
	"testing"

	"seckill/internal/lab"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/judge/judgetest"
)

// A situation arises only where the next holder has the lock for certain: what may have been otherwise says nothing.
func TestSituations(t *testing.T) {
	const first = "1 17 acquired asked=0 left=100\n"
	for name, c := range map[string]struct {
		situation *lab.Situation
		history   string
		arose     bool
	}{
		"a late release, and the next one has the lock": {
			successorAtRelease(), first + "102 18 acquired asked=5\n 140 17 releasing left=-40\n 141 17 released asked=140\n 180 18 releasing\n 181 18 released asked=180", true,
		},
		"a late release, and the next one begins to release meanwhile": {
			successorAtRelease(), first + "102 18 acquired asked=5\n 140 17 releasing left=-40\n 140.5 18 releasing\n 141 17 released asked=140\n 142 18 released asked=141", false,
		},
		"a release in time": {
			successorAtRelease(), first + "50 17 releasing left=50\n 51 17 released asked=50\n 52 18 acquired asked=5\n 90 18 releasing\n 91 18 released asked=90", false,
		},
		"the lease ends between the comparison and the deletion": {
			successorDuringRelease(), first + "50 17 releasing left=51\n 102 18 acquired asked=5\n 140 17 released asked=50\n 180 18 releasing\n 181 18 released asked=180", true,
		},
		"the comparison came too late": {
			successorDuringRelease(), first + "50 17 releasing left=51\n 102 18 acquired asked=5\n 140 17 released asked=50 err=lost\n 180 18 releasing\n 181 18 released asked=180", false,
		},
		"nobody has the lock at the deletion": {
			successorDuringRelease(), first + "50 17 releasing left=51\n 140 17 released asked=50\n 141 18 acquired asked=5\n 180 18 releasing\n 181 18 released asked=180", false,
		},
		"the lease has not ended": {
			successorDuringRelease(), first + "50 17 releasing left=500\n 139 18 acquired asked=5\n 140 17 released asked=50\n 180 18 releasing\n 181 18 released asked=180", false,
		},
	} {
		if got := c.situation.Arose(judge.NewHistory(judgetest.Script(t, c.history))); got != c.arose {
			t.Errorf("%s: arose %v, want %v", name, got, c.arose)
		}
	}
}
