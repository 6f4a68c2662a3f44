package database

import (
	"errors"
	"testing"

	"seckill/internal/order"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// What Vitess cannot do is refused there, and nowhere else.
func TestUnsuitedOnVitess(t *testing.T) {
	t.Parallel()
	server := &DB{engine: engine{galera: &cluster{}, batches: true}}
	for name, tc := range map[string]struct {
		change func(*voucher.Policy)
		field  string
	}{
		"the default":          {func(*voucher.Policy) {}, ""},
		"rows":                 {func(p *voucher.Policy) { p.Stock = voucher.StockRows }, ""},
		"a lock that is a row": {func(p *voucher.Policy) { p.Lock = "mysql-row" }, ""},
		"units":                {func(p *voucher.Policy) { p.Stock = voucher.StockUnits }, "policy.stock"},
		"GET_LOCK":             {func(p *voucher.Policy) { p.Lock = "mysql-get-lock" }, "policy.lock"},
		"FOR UPDATE":           {func(p *voucher.Policy) { p.Lock = "mysql-for-update" }, "policy.lock"},
	} {
		p := voucher.DefaultPolicy()
		tc.change(&p)
		for gate, want := range map[bool]string{false: "", true: tc.field} {
			server.galera.gate.Store(gate)
			field, why := server.Unsuited(p)
			fail.Unequal(t, field, want, "%s, on Vitess: %v: ", name, gate)
			fail.Unequal(t, why != "", want != "", "%s, on Vitess: %v: a reason", name, gate)
		}
	}
	server.galera.gate.Store(true)
	took := &tx{db: server}
	if err := took.TakeUnit(t.Context(), 1, 0); !errors.Is(err, order.ErrUnavailable) || len(took.pending) > 0 {
		t.Errorf("a unit of a voucher that was created elsewhere: %v, %d statements", err, len(took.pending))
	}
}
