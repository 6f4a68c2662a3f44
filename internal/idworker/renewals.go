package idworker

import (
	"log/slog"
	"sync"
)

// renewals logs once that renewals fail, whichever machine id is the first, and once that all succeed again. While a server
// refuses them, each machine id is tried twice a second.
type renewals struct {
	log *slog.Logger

	mu      sync.Mutex
	failing map[*slot]bool // those that failed last
}

func newRenewals(log *slog.Logger) *renewals { return &renewals{log: log, failing: map[*slot]bool{}} }

func (r *renewals) failed(s *slot, machine uint16, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.failing) == 0 {
		r.log.Warn("machine id not renewed", slog.Int("machine", int(machine)), slog.Any("error", err))
	}
	r.failing[s] = true
}

// succeeded is called after a renewal, and when a slot has leased another machine id.
func (r *renewals) succeeded(s *slot) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failing[s] {
		return
	}
	if delete(r.failing, s); len(r.failing) == 0 {
		r.log.Info("machine ids are renewed again")
	}
}
