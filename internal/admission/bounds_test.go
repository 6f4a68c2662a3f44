package admission

import (
	"fmt"
	"math"
	"testing"

	"seckill/internal/admission/ledger"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// Numbers that no script can have written, and that Redis could never catch up with, do not keep a voucher shut.
func TestNumbersAreBounded(t *testing.T) {
	t.Parallel()
	for _, field := range []string{ledger.EntrySeq, ledger.EntryEpoch} {
		for value, valid := range map[int64]bool{7: true, ledger.MaxNumber: true, ledger.MaxNumber + 1: false, math.MaxInt64: false} {
			entry := map[string]any{ledger.EntryOrder: "11", ledger.EntryUser: "1", ledger.EntryEpoch: "2", ledger.EntrySeq: "3"}
			entry[field] = fmt.Sprint(value)
			if got := ledger.ParseEntry("1-1", entry)[0]; (got.Err == nil) != valid {
				t.Errorf("field %s is %d: %v", field, value, got.Err)
			}
		}
	}
	for name, poison := range map[string]func(*fixture){
		"in the database": func(s *fixture) { s.store.epochState.Seq[0] = math.MaxInt64 },
		"in Redis":        func(s *fixture) { s.client.HSet(t.Context(), s.keys.Meta, ledger.FieldSeq, int64(math.MaxInt64)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, testkit.AnyRedis(t), 5)
			fail.NowIf(t, s.buy(s.gate(nil), 1, 11))
			s.takeAll()
			poison(s)
			fail.NowIf(t, s.client.HSet(t.Context(), s.keys.Meta, ledger.FieldEpoch, 1).Err()) // it is rebuilt
			g := s.gate(nil)
			fail.NowIf(t, s.buy(g, 2, 22))
			s.takeAll()
			g.Check(t.Context())
			fail.NowIf(t, s.buy(g, 3, 33))
			s.takeAll()
			s.balanced(g, 3)
			fail.Unequal(t, s.store.epochState.Epoch, 4, "the voucher was rebuilt up to epoch")
		})
	}
}
