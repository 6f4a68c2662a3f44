package explore

import (
	"strings"
	"sync/atomic"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// scriptFault is a deliberate fault in a script, and what it leads to.
type scriptFault struct {
	lock, fault, old, new string
	budget                Budget
	kind                  finding.Kind
	schedule              string // the shortest
}

var scriptFaults = []scriptFault{
	{"lua", "a release does not compare", "if value ~= ARGV[1] then", "if false then", Budget{Preemption: 2, Expiry: 1}, finding.WrongReleases, "lua~2~s1-q1-r1-t-s2-q2-r2-w1-q1"},
	{"reentrant", "a lock that is held is granted", "elseif holder ~= owner then\n  return refused(holder)", "elseif holder ~= owner then\n  return granted()", Budget{Preemption: 1}, finding.Overlaps, "reentrant~2~s1-q1-r1-s2-q2-r2-q2-r2-q2-r2"},
	{"reentrant", "a release forgets the queue", "if not grant_next(lock, queue, tonumber(ARGV[7])) then", "if true then", Budget{Preemption: 1}, finding.NeedlessWaits, "reentrant~2~s1-q1-s2-q2-r2-q2-r2-q2-r2-r1-w1-q1-r1-t"},
	{"reentrant", "a renewal renews nothing", "return redis.call('PEXPIRE', lock, ttl)", "return 1", Budget{Preemption: 1, Expiry: 1}, finding.Overlaps, "reentrant~2~s1-q1-r1-t-q1-r1-t-q1-r1-t-q1-r1-t-s2-q2-r2"},
	{"fair", "nobody is told by a release", "  notify(lock, first)\nend\nreturn ends", "end\nreturn ends", Budget{Preemption: 1}, finding.NeedlessWaits, "fair~2~s1-q1-s2-q2-r2-q2-q2-r2-r2-q2-r2-r1-w1-q1-r1-t"},
	{"rw", "a reader comes while a writer writes", "  wait = s.last_end - s.time\n", "  wait = 0\n", Budget{Preemption: 1}, finding.Overlaps, "rw~2~s1-q1-r1-s2-q2-r2"},
	{"multi", "a node's release does nothing", "return redis.call('DEL', KEYS[1])", "return 1", Budget{}, finding.LockedOut, "multi~2~s1-q1-q1-q1-r1-r1-r1-w1-q1-q1-q1-r1-r1-r1-s2"},
	{"red", "a node's release does nothing", "return redis.call('DEL', KEYS[1])", "return 1", Budget{}, finding.LockedOut, "red~2~s1-q1-q1-q1-r1-r1-r1-w1-q1-q1-q1-r1-r1-r1-s2"},
}

// Each fault in a script is found, by its shortest schedule.
func TestFaultsAreFound(t *testing.T) {
	findFaults(t, scriptFaults)
}

// TestSoakFaultsAreFound has the faults that take more bad luck. The token matters only where the holder is not told.
func TestSoakFaultsAreFound(t *testing.T) {
	testkit.Soak(t)
	findFaults(t, []scriptFault{
		{"rw", "a writer comes while a reader reads", "local granted = s.owner == owner or free and", "local granted = s.owner == owner or s.writers == 0 and", Budget{Preemption: 2}, finding.Overlaps, "rw~2~s1-s2-q2-r2-q1-r1"},
		{"fenced", "a token does not grow", "math.max(newest + 1, tonumber(new_ticket()))", "7", Budget{Preemption: 1, Jumping: 1}, finding.StaleWrites, "fenced~2~s1-q1-r1-s2-q2-r2-q2-r2-q2-r2-t-q1-r1-t-j1-q2-r2-w2-q2-r2-w1"},
	})
}

func findFaults(t *testing.T, faults []scriptFault) {
	for _, f := range faults {
		t.Run(f.lock+": "+f.fault, func(t *testing.T) {
			var changed atomic.Bool
			c := Config{Lock: f.lock, Budget: f.budget, Until: f.kind, rewrite: func(source string) string {
				if strings.Contains(source, f.old) {
					changed.Store(true)
				}
				return strings.Replace(source, f.old, f.new, 1)
			}}
			r, err := Run(t.Context(), c)
			fail.NowIf(t, err)
			if !changed.Load() {
				t.Error("no script has what the fault replaces")
			}
			fail.Unequal(t, shortest(r)[f.kind], f.schedule, string(f.kind))
		})
	}
}
