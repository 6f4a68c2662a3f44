package idworker

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
)

// A server that refuses the renewals is asked again and again. The log says once that it refuses, and once that it is
// over.
func TestFailingRenewalsAreLoggedOnce(t *testing.T) {
	var log strings.Builder // only read while every goroutine waits
	inBubble(t, Config{Machines: 4, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(t *testing.T, b *testSonyflake) {
		for outage := 1; outage <= 2; outage++ {
			var asked atomic.Int64
			b.registry.server.Refuse(func(string, ...string) string { asked.Add(1); return "NOREPLICAS Not enough good replicas to write." })
			simulate.Sleep(30 * time.Second)
			b.wantNoLease()
			b.registry.server.Refuse(nil)
			simulate.Sleep(30 * time.Second)
			b.wantReady()
			synctest.Wait()
			for message, want := range map[string]int{"machine id not renewed": outage, "NOREPLICAS": outage, "machine ids are renewed again": outage, "minting stopped": 4 * outage} {
				if got := strings.Count(log.String(), message); got != want {
					t.Errorf("after outage %d, with %d requests: %q is logged %d times, want %d", outage, asked.Load(), message, got, want)
				}
			}
		}
	})
}
