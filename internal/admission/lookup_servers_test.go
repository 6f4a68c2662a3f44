package admission

import (
	"fmt"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// A scan names each user once, however many requests the user has sent, and splits what would be too much for one
// command or one round trip.
func TestQueriesAreBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ users, requests, vouchers int }{{1, 200, bucketsPerCall + 100}, {2500, 2500, 12}} {
		t.Run(fmt.Sprintf("%d users, %d vouchers", tc.users, tc.vouchers), func(t *testing.T) {
			t.Parallel()
			s := newFixture(t, at(testkit.Redis(t).Addr()), 10)
			var all []otherVoucher
			for n := range int64(tc.vouchers) {
				all = append(all, otherVoucher{id: 8000 + n, buckets: 1, epoch: 2, orders: map[int64]int64{1 + n: 1000 + n, int64(tc.users): 5000 + n}})
			}
			s.add(all...)
			seen := &pipelines{}
			g := s.gateWith(seen)
			var users []int64
			for n := range tc.requests {
				users = append(users, int64(1+n%tc.users))
			}
			taken := scanFor(users...)
			g.lookups.takeScan(t.Context(), taken)
			for a, err := range taken.answers(t.Context()) {
				if err != nil || a.missing(1) != nil || len(a.found[int64(tc.users)]) != tc.vouchers {
					t.Errorf("%d orders of user %d, %v, %v", len(a.found[int64(tc.users)]), tc.users, err, a.missing(1))
				}
			}
			asked := 0
			for _, trip := range seen.usersAsked() {
				sum := 0
				for _, n := range trip {
					if sum += n; n > usersPerCommand {
						t.Errorf("a command asks for %d users", n)
					}
				}
				if asked += sum; sum > usersPerCall || len(trip) > bucketsPerCall {
					t.Errorf("a round trip has %d commands for %d users", len(trip), sum)
				}
			}
			fail.Unequal(t, asked, tc.users*tc.vouchers, "users were asked for")
		})
	}
}
