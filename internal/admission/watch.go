package admission

import (
	"cmp"
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
	for _, p := range g.all() {
		if time.Since(p.sale.to) > g.config.Remembered {
			g.forget(p)
			continue
		}
		p.check(ctx)
	}
}

func (g *Gate) forget(p *pool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p.idle() {
		delete(g.pools, p.id)
	}
}

// check closes the voucher where Redis is behind the database or behind what this
// process has seen, and opens it again. It also finishes draws that nobody did.
func (p *pool) check(ctx context.Context) {
	before := p.known()
	var epoch int64
	for _, b := range before {
		epoch = max(epoch, b.epoch)
	}
	if epoch == 0 {
		// Shut: whoever comes first opens it. That is nobody while Redis' clock, when it
		// was last looked at, showed that the sale is over; and it may have been wrong.
		_ = p.look(ctx)
		return
	}
	st, err := p.standing(ctx)
	if err != nil {
		p.gate.config.Log.Warn("admission cannot be compared with the database", "voucher", p.id, "error", err)
		return
	}
	all := p.look(ctx)
	gone, err := forgot(all, func() []state { return p.look(ctx) })
	if err := cmp.Or(unknown(all), err); err != nil {
		p.gate.config.Log.Warn("admission cannot be compared with Redis", "voucher", p.id, "error", err)
		return
	}
	whole := true
	for i, l := range p.lines {
		was, now := before[i], &all[i]
		switch {
		case was.epoch == 0: // whoever found it so may have gone
			whole = false
		case now.epoch != was.epoch || st.Epoch != was.epoch:
			whole = false
			_ = l.shut(was.epoch, closed)
		case gone || behind(now, st, i) || now.seq < was.seq || now.back < was.back:
			whole = false
			_ = l.shut(was.epoch, forgotten)
		}
	}
	if !whole {
		p.reopen()
		return
	}
	if _, err := p.settleTransit(ctx, all, epoch); err != nil {
		p.gate.config.Log.Warn("admission has stock in transit", "voucher", p.id, "error", err)
	}
}
