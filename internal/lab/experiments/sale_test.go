package experiments

import (
	"strings"
	"testing"

	"seckill/internal/lab"
	"seckill/internal/voucher"
)

// A sale that refuses nobody says nothing about a sale that refuses many.
func TestVersionsWithoutRefusalsAreNoVerdict(t *testing.T) {
	r := playedWith(t, "version-cas-no-lock", func(s *lab.Setup) {
		s.Policy.Lock, s.Policy.Stock = "reentrant", voucher.StockConditional
	})
	if !strings.Contains(r.Failed, "did not meet") || r.Observed != "" {
		t.Errorf("observed %q, failed %q", r.Observed, r.Failed)
	}
}
