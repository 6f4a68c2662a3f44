package admission

import (
	"context"
	"time"
)

// Run compares Redis with the database from time to time, until ctx ends: a voucher
// that nobody buys at the moment would not be found behind otherwise. It also forgets
// vouchers whose sale is long over. Its only error is the context's cause.
func (g *Gate) Run(ctx context.Context) error {
	every := time.NewTicker(g.config.CheckEvery)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			g.Check(ctx)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Check does once what Run does.
func (g *Gate) Check(ctx context.Context) {
	for _, l := range g.all() {
		if time.Since(l.sale.to) > g.config.Remembered {
			g.forget(l)
			continue
		}
		l.check(ctx)
	}
}

func (g *Gate) forget(l *line) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.working && l.door.opening == nil {
		delete(g.lines, l.id)
	}
}

// check closes the voucher where Redis is behind the database or behind what this
// process has seen, and opens it again.
func (l *line) check(ctx context.Context) {
	l.mu.Lock()
	before := l.door.known
	l.mu.Unlock()
	if before.epoch == 0 {
		return // shut: whoever comes first opens it
	}
	st, err := l.standing(ctx)
	if err != nil {
		l.gate.config.Log.Warn("admission cannot be compared with the database", "voucher", l.id, "error", err)
		return
	}
	now, err := l.look(ctx)
	switch {
	case err != nil:
		l.gate.config.Log.Warn("admission cannot be compared with Redis", "voucher", l.id, "error", err)
		return
	case now.epoch != before.epoch || st.Epoch != before.epoch:
		_ = l.shut(before.epoch, closed)
	case behind(now, st) || now.seq < before.seq || now.back < before.back:
		_ = l.shut(before.epoch, forgotten)
	default:
		return
	}
	_, _ = l.opened(ctx, 0) // begins it
}
