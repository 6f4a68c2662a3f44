package idworker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sony/sonyflake"
	"pgregory.net/rapid"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// step is one action on one of the processes, or on the registry.
type step struct {
	kind    string
	process int
	n       int // ids, milliseconds, ticks or a machine id, depending on kind
}

func drawStep(t *rapid.T) step {
	s := step{
		kind: rapid.SampledFrom([]string{
			"mint", "mint", "mint", "sleep", "sleep", "clock", "start", "close", "freeze", "delete", "takeOver", "down", "up",
		}).Draw(t, "kind"),
		process: rapid.IntRange(0, 2).Draw(t, "process"),
	}
	switch s.kind {
	case "mint":
		s.n = rapid.IntRange(1, 600).Draw(t, "ids")
	case "sleep":
		s.n = rapid.IntRange(1, 1500).Draw(t, "ms")
	case "clock":
		s.n = rapid.IntRange(-300, 300).Draw(t, "ticks")
	case "delete", "takeOver":
		s.n = rapid.IntRange(1, 4).Draw(t, "machine")
	}
	return s
}

// Three processes share four machine ids. Their clocks differ and jump, leases are deleted and taken over, processes
// stop and freeze, the registry fails and recovers. No id is ever minted twice.
func TestIDsAreUnique(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.Custom(drawStep), 1, 60).Draw(rt, "steps")
		var err error
		synctest.Test(t, func(t *testing.T) { err = run(t, steps) })
		fail.NowIf(rt, err)
	})
}

// run runs the steps and returns the first violation.
func run(t *testing.T, steps []step) error {
	cfg := Config{FirstMachine: 1, LastMachine: 4, TTL: time.Second}
	registry := newLeases(t, cfg)
	var processes [3]process
	for i := range processes {
		processes[i].start(t, registry, cfg)
		defer processes[i].freeze()
	}
	seen := map[int64]bool{}
	for at, s := range steps {
		switch p := &processes[s.process]; s.kind {
		case "mint":
			if err := p.mint(t, s.n, seen); err != nil {
				return fmt.Errorf("step %d: process %d: %w", at, s.process, err)
			}
		case "sleep":
			simulate.Sleep(time.Duration(s.n) * time.Millisecond)
		case "clock":
			p.ahead.Add(int64(s.n) * int64(unit))
		case "start":
			p.start(t, registry, cfg)
		case "close":
			p.close(t)
		case "freeze":
			p.freeze()
		case "delete":
			registry.remove(uint16(s.n))
		case "takeOver":
			registry.takeOver(uint16(s.n))
		case "down":
			registry.server.Stop()
		case "up":
			registry.server.Start()
		}
	}
	return nil
}

// process is a Sonyflake with a clock of its own.
type process struct {
	ids   *Sonyflake // nil: it is not running
	ahead atomic.Int64
}

// start restarts the process, if it gets a machine id within 50 ms.
func (p *process) start(t *testing.T, registry *leases, cfg Config) {
	p.freeze()
	p.ids = nil
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	cfg.start = clockAhead(&p.ahead)
	cfg = cfg.withDefaults()
	if ids, err := newSonyflake(ctx, newRedisRegistry(registry.client, cfg), cfg); err == nil {
		p.ids = ids
	}
}

// close releases the leases, if the registry answers.
func (p *process) close(t *testing.T) {
	if p.ids != nil {
		_ = p.ids.Close(t.Context())
	}
}

// freeze ends the background work of a process and lets it mint without checking the end of its lease. That is a
// process that is paused right after the check, between two instructions. The marks alone must keep its ids unique.
func (p *process) freeze() {
	if p.ids == nil {
		return
	}
	p.ids.stop()
	<-p.ids.stopped
	for _, slot := range p.ids.slots {
		if g := slot.generator.Load(); g != nil {
			g.mu.Lock()
			g.deadline = time.Now().Add(time.Hour)
			g.mu.Unlock()
		}
	}
}

// mint mints up to n ids. It stops early after 30 ms, or when an id is refused.
func (p *process) mint(t *testing.T, n int, seen map[int64]bool) error {
	if p.ids == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	for range n {
		id, err := p.ids.NextID(ctx)
		switch machine := sonyflake.MachineID(uint64(id)); {
		case errors.Is(err, ErrNoLease), errors.Is(err, context.DeadlineExceeded):
			return nil
		case err != nil:
			return err
		case id <= 0 || machine < 1 || machine > 4:
			return fmt.Errorf("minted %d, of machine id %d", id, machine)
		case seen[id]:
			return fmt.Errorf("minted %d a second time: %v", id, sonyflake.Decompose(uint64(id)))
		}
		seen[id] = true
	}
	return nil
}
