package lockjudge_test

import (
	"slices"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lock/locktest"
	"seckill/internal/testkit"
)

// TestSoakJudge judges sound and flawed locks by everything that matters, on leases of real length: nothing but their
// flaws is found. A sale under a lock that renews its lease is right, also when a buyer is late.
func TestSoakJudge(t *testing.T) {
	testkit.Soak(t)
	t.Run("behaviours", judgedRight)
	inTime, late := sold(t, shop(t), "reentrant", 3*time.Second)
	for _, s := range []finding.Result{inTime, late} {
		if s.Observed != finding.Holds || s.Orders != 30 {
			t.Errorf("%s: %d orders, it %s: %v", s.ID, s.Orders, s.Observed, s.Anomalies)
		}
	}
}

func judgedRight(t *testing.T) {
	redis := testkit.NewRedis(t).Addr()
	matter := append(safety(), locktest.RenewalIsRetried, locktest.TellsExpiredFromLost, locktest.FreedAfterDeath, locktest.ToldWhenDeleted,
		locktest.RenewsOnlyOwn, locktest.InnerDoesNotShorten, locktest.CancelLeavesNothing)
	right, of := 0, 0
	for name, want := range flaws() {
		found := broken(t, command(t, name), redis, matter...)
		for _, b := range matter {
			of++
			if _, is := found[b]; is == slices.Contains(want, b) {
				right++
			} else {
				t.Errorf("%s breaks %s: %v, want %v", name, b, is, !is)
			}
		}
	}
	t.Logf("%d of %d behaviours were judged right (promised: all)", right, of)
}
