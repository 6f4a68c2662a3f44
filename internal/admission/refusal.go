package admission

import (
	"time"

	"seckill/internal/voucher"
)

// Refusal implements the method of [order.Gate]. It leaves the turn of whoever is let
// through to see for the others to [Gate.Admit], which the same buyer asks next.
func (g *Gate) Refusal(v *voucher.Voucher, userID int64) error {
	p := g.known(v.ID)
	if p == nil {
		return nil
	}
	err := p.line(userID).foretold(g.now)
	if err != nil {
		g.config.Observer.decided(err)
	}
	return err
}

// foretold is what marked would say of a refusal, and nil where it may be somebody's
// turn. While there is none it costs a look at one word.
func (m *marks) foretold(now func() time.Duration) error {
	r := m.refusal.Load()
	if r == nil || int64(now()) >= r.next.Load() {
		return nil
	}
	return r.err
}
