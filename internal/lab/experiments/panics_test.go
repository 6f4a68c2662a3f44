package experiments

import (
	"testing"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/finding"
)

// A key that expires with its lease is neither free at once nor there forever.
func TestPanicUnderALeaseIsNeither(t *testing.T) {
	leased := func(s *lab.Setup) {
		s.Policy.Lock, s.Policy.LockTTLMS, s.Deferred = "lua", (600 * time.Millisecond).Milliseconds(), false
	}
	t.Run("not at once", func(t *testing.T) {
		t.Parallel()
		breaksWith(t, "panic-deferred-release", leased)
	})
	t.Run("not for ever", func(t *testing.T) {
		t.Parallel()
		if r := playedWith(t, "panic-skips-release", leased); r.Observed != finding.Holds {
			t.Errorf("observed %s: %v", r.Observed, r.Anomalies)
		}
	})
}
