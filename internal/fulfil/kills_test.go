package fulfil

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"seckill/internal/testkit"
)

// Processes, Redis (with all its data on disk) and MariaDB are killed at random while orders
// arrive. After each round no order is lost and none is doubled.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	store := testkit.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always")
	server := testkit.NewMariaDB(t)
	where := server.Database(t)
	s := openEnv(t, clientOf(t, store.Addr()), where, 3, 100_000)
	names := []string{"a", "b", ""}
	processes := make([]*testkit.Process, len(names))
	for n, name := range names {
		processes[n] = s.startChild(store.Addr(), where.DSN, name, "", 0)
	}
	kills := map[string]int{}
	for range rounds {
		var buyers sync.WaitGroup
		quit := make(chan struct{})
		for _, id := range s.vouchers {
			buyers.Go(func() {
				for {
					select {
					case <-quit:
						return
					default:
						s.acceptIfThere(id)
					}
				}
			})
		}
		for range 3 {
			time.Sleep(rand.N(100 * time.Millisecond)) // at a random moment of the load
			switch n := rand.IntN(5); n {
			case 3:
				kills["Redis"]++
				store.Kill()
				store.Restart()
			case 4:
				kills["MariaDB"]++
				server.Kill()
				server.Restart()
			default:
				kills["process"]++
				processes[n].Kill()
				processes[n] = s.startChild(store.Addr(), where.DSN, names[n], "", 0)
			}
		}
		close(quit)
		buyers.Wait()
		for n, p := range processes { // a process may have failed to start without its servers
			select {
			case <-p.Done():
				processes[n] = s.startChild(store.Addr(), where.DSN, names[n], "", 0)
			default:
			}
		}
		if n := s.checkFinalState(); n != 0 {
			t.Errorf("%d rejected", n)
		}
	}
	t.Logf("%d rounds, %v kills, %d orders", rounds, kills, len(s.accepted))
	for n, p := range slices.Backward(processes) {
		if err := p.Stop(); err != nil {
			t.Errorf("process %d: %v", n, err)
		}
	}
}

// acceptIfThere accepts one order. Without an answer from Redis it may have been accepted; then
// the reservation tells.
func (s *env) acceptIfThere(voucherID int64) {
	id := s.ids.Add(1)
	a := accept(voucherID, id)
	if s.admit(a) == nil {
		return
	}
	testkit.Until(s.t, "Redis tells whether the order was accepted", func() bool {
		there, err := s.client.HExists(s.t.Context(), s.keys(voucherID).Users, text(a.UserID)).Result()
		if err == nil && there {
			s.mu.Lock()
			s.accepted[a.OrderID] = a
			s.mu.Unlock()
		}
		return err == nil
	})
}
