package admission_test

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
	"time"

	"seckill/internal/order"
	"seckill/internal/testkit"
)

// Processes that handle late money kill themselves at any point, one after the other.
func TestSoakLateMoneyKilledAgainAndAgain(t *testing.T) {
	testkit.Soak(t)
	for _, buckets := range []int{1, 3} {
		t.Run(fmt.Sprint(buckets, " buckets"), func(t *testing.T) {
			t.Parallel()
			const stock, late = 8, 16
			s := newLateSale(t, testkit.MariaDB(t), stock, buckets)
			var ids []int64
			for user := range int64(late) {
				ids = append(ids, s.cancelled(s.v, user+1))
			}
			s.stopWorkers()
			for _, id := range ids {
				s.pay(id)
			}
			allAtRest := func() bool { return !slices.ContainsFunc(ids, func(id int64) bool { return !s.atRest(id) }) }
			kills, odds := map[string]int{}, 1.0 // the first one is always killed
			for rest, deadline := false, time.Now().Add(3*time.Minute); !rest; {
				if time.Now().After(deadline) {
					t.Fatalf("not at rest after %v", kills)
				}
				p := s.startChild(pointAny, odds)
				odds = 0.1
				testkit.Until(t, "the child has ended, or all is at rest", func() bool {
					select {
					case <-p.Done():
						return true
					default:
						rest = allAtRest()
						return rest
					}
				})
				if rest {
					p.Kill()
					continue
				}
				killed(t, p)
				kills[deathOf(p)]++
			}
			outcomes := map[order.Outcome]int{}
			for _, id := range ids {
				got := s.received(id)
				outcomes[got.Outcome]++
				s.finished(id, got.Outcome)
			}
			t.Logf("%v after the deaths %v", outcomes, kills)
			if paid := outcomes[order.SettledLate]; paid != stock || outcomes[order.RefundNoStock] != late-stock {
				t.Errorf("%v, want %d paid", outcomes, stock)
			}
			s.settleDown(s.v) // what buckets gave each other may be on its way
			s.balanced(s.v)
		})
	}
}

// deathOf returns where a child has killed itself.
func deathOf(p *testkit.Process) string {
	if found := regexp.MustCompile(`killed: (.*)`).FindStringSubmatch(p.Output()); found != nil {
		return found[1]
	}
	return "a point of the workers"
}
