package gctune

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The memory limit is nine tenths of the control group's, unless there is none, or GOMEMLIMIT says another.
func TestMemoryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		group memlimit.Provider
		env   string
		want  int64
	}{
		"of the group": {memlimit.Limit(500_000_000), "", 450_000_000},
		"no limit":     {func() (uint64, error) { return 0, memlimit.ErrNoLimit }, "", 77},
		"no group":     {func() (uint64, error) { return 0, memlimit.ErrNoCgroup }, "", 77},
		"very much":    {memlimit.Limit(math.MaxUint64), "", math.MaxInt64},
		"GOMEMLIMIT":   {memlimit.Limit(500_000_000), "300MiB", 77}, // Go itself reads it
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", c.env)
			before := debug.SetMemoryLimit(77)
			defer debug.SetMemoryLimit(before)
			limitMemory(c.group)
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
