package voucher_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

var begin = time.Date(2026, 11, 11, 20, 0, 0, 0, time.UTC)

func validVoucher() voucher.Voucher {
	return voucher.Voucher{
		Title: "100 off", InitialStock: 100, PriceCents: 8000, ValueCents: 10000,
		BeginAt: begin, EndAt: begin.Add(time.Hour), Policy: voucher.DefaultPolicy(),
	}
}

func TestOnSaleIsHalfOpen(t *testing.T) {
	v := validVoucher()
	for _, tc := range []struct {
		name string
		now  time.Time
		want error
	}{
		{"a nanosecond before", begin.Add(-1), voucher.ErrNotStarted},
		{"at the second", begin, nil},
		{"a nanosecond before the end", v.EndAt.Add(-1), nil},
		{"at the end", v.EndAt, voucher.ErrEnded},
		{"in another time zone", begin.In(time.FixedZone("UTC+8", 8*3600)), nil},
	} {
		fail.Unless(t, v.OnSale(tc.now), tc.want, "%s: OnSale", tc.name)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	for _, title := range []string{"100 off", "Crème brûlée", "咖啡券", "👩\u200d🍳 brunch", "🏴\U000e0067\U000e0062\U000e007f", "می\u200cخواهم", "\u200fקפה", "e\u0301", "☕"} {
		v := validVoucher()
		v.Title = title
		fail.NowIf(t, v.Validate(), "a valid voucher %+q is refused", title)
	}
	for _, tc := range []struct {
		field  string
		change func(*voucher.Voucher)
	}{
		{"title", func(v *voucher.Voucher) { v.Title = " \t" }},
		{"title", func(v *voucher.Voucher) { v.Title = strings.Repeat("é", voucher.MaxTitle+1) }},
		{"title", func(v *voucher.Voucher) { v.Title = "\xff" }},
		{"title has the character U+0000", func(v *voucher.Voucher) { v.Title = "a\x00b" }},
		{"title has the character U+000A", func(v *voucher.Voucher) { v.Title = "a\nb" }},
		{"title has the character U+001B", func(v *voucher.Voucher) { v.Title = "\x1b[31mred" }},
		{"title has the character U+0085", func(v *voucher.Voucher) { v.Title = "a\u0085b" }},
		{"title has the character U+2028", func(v *voucher.Voucher) { v.Title = "a\u2028b" }},
		{"title has the character U+202E", func(v *voucher.Voucher) { v.Title = "\u202eff o001" }},
		{"title has the character U+2066", func(v *voucher.Voucher) { v.Title = "a\u2066b" }},
		{"title has the character U+FEFF", func(v *voucher.Voucher) { v.Title = "\ufeffcoffee" }},
		{"title has no visible character", func(v *voucher.Voucher) { v.Title = "\u200b\u200d" }},
		{"title has no visible character", func(v *voucher.Voucher) { v.Title = "\u3164\u2800\u00a0" }},
		{"title has no visible character", func(v *voucher.Voucher) { v.Title = "\u034f\ufe0f" }},
		{"stock", func(v *voucher.Voucher) { v.InitialStock = 0 }},
		{"stock", func(v *voucher.Voucher) { v.InitialStock = -5 }},
		{"stock", func(v *voucher.Voucher) { v.InitialStock = voucher.MaxStock + 1 }},
		{"price_cents", func(v *voucher.Voucher) { v.PriceCents = -1 }},
		{"value_cents", func(v *voucher.Voucher) { v.ValueCents = voucher.MaxCents + 1 }},
		{"begin_at", func(v *voucher.Voucher) { v.BeginAt = time.Time{} }},
		{"begin_at", func(v *voucher.Voucher) { v.BeginAt = time.Date(1815, 6, 18, 0, 0, 0, 0, time.UTC) }},
		{"end_at", func(v *voucher.Voucher) { v.EndAt = time.Time{} }},
		{"end_at", func(v *voucher.Voucher) { v.EndAt = v.BeginAt }},
		{"end_at", func(v *voucher.Voucher) { v.EndAt = v.BeginAt.Add(-time.Hour) }},
		{"policy.flow", func(v *voucher.Voucher) { v.Policy.Flow = "queued" }},
		{"policy.flow", func(v *voucher.Voucher) { v.Policy.Flow, v.Policy.Scope, v.Policy.Stock = "?", "?", "?" }},
		{"policy.lock", func(v *voucher.Voucher) { v.Policy.Lock = "mutex" }},
		{"policy.scope", func(v *voucher.Voucher) { v.Policy.Scope = "" }},
		{"policy.placement", func(v *voucher.Voucher) { v.Policy.Placement = "outside" }},
		{"policy.stock", func(v *voucher.Voucher) { v.Policy.Stock = "none" }},
		{"policy.lock_ttl_ms", func(v *voucher.Voucher) { v.Policy.LockTTLMS = -1 }},
		{"policy.lock_ttl_ms", func(v *voucher.Voucher) { v.Policy.LockTTLMS = 1 << 62 }},
		{"policy.lock_wait_ms", func(v *voucher.Voucher) { v.Policy.LockWaitMS = 60_001 }},
		{"policy.faults", func(v *voucher.Voucher) { v.Policy.Faults = make([]lock.Fault, voucher.MaxFaults+1) }},
		{"policy.placement", func(v *voucher.Voucher) { v.Policy.Stock, v.Policy.Placement = voucher.StockGrouped, voucher.InsideTx }},
		{"policy.unique", func(v *voucher.Voucher) { v.Policy.Stock, v.Policy.Unique = voucher.StockGrouped, false }},
		{"policy.faults", func(v *voucher.Voucher) {
			v.Policy.Stock, v.Policy.Faults = voucher.StockGrouped, []lock.Fault{{Point: lock.BeforeCommit, PauseMS: 1}}
		}},
		{"stock", func(v *voucher.Voucher) { v.Policy.Stock, v.InitialStock = voucher.StockUnits, voucher.MaxUnits+1 }},
		{"policy.faults[0]", func(v *voucher.Voucher) { v.Policy.Faults = []lock.Fault{{Point: "nowhere", PauseMS: 1}} }},
	} {
		v := validVoucher()
		tc.change(&v)
		err := v.Validate()
		if !errors.Is(err, voucher.ErrInvalid) || !strings.Contains(err.Error(), tc.field) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: Validate = %v, want ErrInvalid that names the field, in one sentence", tc.field, err)
		}
	}
}

func TestSafePolicies(t *testing.T) {
	for _, tc := range []struct {
		name string
		safe bool
		set  func(*voucher.Policy)
	}{
		{"default", true, func(*voucher.Policy) {}},
		{"per voucher", true, func(p *voucher.Policy) { p.Scope = voucher.ScopeVoucher }},
		{"optimistic", true, func(p *voucher.Policy) { p.Stock = voucher.StockVersion }},
		{"lua", true, func(p *voucher.Policy) { p.Lock = "lua" }},
		{"short lease", true, func(p *voucher.Policy) { p.LockTTLMS = 1 }},
		{"seed without faults", true, func(p *voucher.Policy) { p.FaultSeed = -1 }},
		{"no lock, conditional", true, func(p *voucher.Policy) { p.Lock = "none" }},
		{"no lock, rows", true, func(p *voucher.Policy) { p.Lock, p.Stock = "none", voucher.StockRows }},
		{"no lock, units", true, func(p *voucher.Policy) { p.Lock, p.Stock = "none", voucher.StockUnits }},
		{"no lock, grouped", true, func(p *voucher.Policy) { p.Lock, p.Stock = "none", voucher.StockGrouped }},
		{"no lock, version", false, func(p *voucher.Policy) { p.Lock, p.Stock = "none", voucher.StockVersion }},
		{"no lock, fenced", false, func(p *voucher.Policy) { p.Lock, p.Stock = "none", voucher.StockFenced }},
		{"no lock, not unique", false, func(p *voucher.Policy) { p.Lock, p.Unique = "none", false }},
		{"naive", false, func(p *voucher.Policy) { p.Lock = "naive" }},
		{"unguarded", false, func(p *voucher.Policy) { p.Stock = voucher.StockUnguarded }},
		{"inside", false, func(p *voucher.Policy) { p.Placement = voucher.InsideTx }},
		{"not unique", false, func(p *voucher.Policy) { p.Unique = false }},
		{"fault", false, func(p *voucher.Policy) { p.Faults = []lock.Fault{{Point: lock.CriticalSection, PauseMS: 1}} }},
	} {
		p := voucher.DefaultPolicy()
		tc.set(&p)
		if err := p.Safe(); tc.safe && err != nil || !tc.safe && !errors.Is(err, voucher.ErrLabOnly) {
			t.Errorf("%s: Safe = %v, want safe %v", tc.name, err, tc.safe)
		}
	}
}
