package testkit

import (
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Failover promotes the replica of a healthy primary (SENTINEL FAILOVER), and returns once every sentinel names the new
// primary. A sentinel turns the old primary into a replica some ten seconds later; Failover does so at once, as an
// operator would. There is one replica.
func (s *Sentinel) Failover() {
	s.t.Helper()
	before := s.Primary()
	client := redis.NewSentinelClient(&redis.Options{Addr: s.Addrs[0]})
	defer client.Close()
	// A sentinel refuses while it knows no good replica, as in the seconds after the previous failover.
	s.eventually("a sentinel to begin a failover", func() error { return client.Failover(s.t.Context(), s.MasterName).Err() })
	for _, addr := range s.Addrs {
		s.eventually("a sentinel to name the new primary", func() error {
			other := redis.NewSentinelClient(&redis.Options{Addr: addr})
			defer other.Close()
			now, err := other.GetMasterAddrByName(s.t.Context(), s.MasterName).Result()
			if err == nil && (len(now) != 2 || now[0]+":"+now[1] == before) {
				err = fmt.Errorf("it names %v", now)
			}
			return err
		})
	}
	s.primary, s.replicas[0] = s.replicas[0], s.primary
	s.replicas[0].ReplicaOf(s.primary.Addr())
}

// eventually retries try until it succeeds.
func (s *Sentinel) eventually(what string, try func() error) {
	s.t.Helper()
	for end := time.Now().Add(readyTimeout); ; time.Sleep(pollEvery) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.t.Fatalf("testkit: waited %v for %s: %v", readyTimeout, what, err)
		}
	}
}
