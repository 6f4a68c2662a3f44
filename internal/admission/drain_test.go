package admission

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A drain that waits for long, because the database takes no orders, says so once a minute and asks Redis four times a
// second. It sees the end of a short one after some milliseconds.
func TestDrainThatTakesLong(t *testing.T) {
	for name, tc := range map[string]struct {
		lasts       time.Duration
		reads, late int // reads at most; how much later than the end, in ms at most
		warnings    int
	}{
		"a moment": {95 * time.Millisecond, 12, 10, 0},
		"minutes":  {210 * time.Second, 900, 250, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 10, func(t *testing.T, s *fixture, _ *simulate.Redis) {
				s.client.XAdd(t.Context(), &redis.XAddArgs{Stream: s.keys.Orders, Values: []any{"o", "1"}})
				closed, err := s.store.Close(t.Context(), s.store.voucher.ID)
				fail.NowIf(t, err)
				fail.NowIf(t, fail.Of(newLedger(s.config).Close(t.Context(), s.keys, closed.Epoch)))
				var logged bytes.Buffer
				c, reads := s.config, 0
				c.Log = slog.New(slog.NewTextHandler(&logged, nil))
				g := newGate(c.WithDefaults(), &faulty{
					buckets: newLedger(c), call: func(_ context.Context, step string, _ ledger.Keys, do func() error) error {
						if step == "states" {
							reads++
						}
						return do()
					},
				})
				time.AfterFunc(tc.lasts, func() { s.client.Del(t.Context(), s.keys.Orders) })
				begun := time.Now()
				fail.NowIf(t, newVoucherState(g.core, &s.store.voucher).drain(t.Context(), closed.Epoch))
				late := time.Since(begun) - tc.lasts
				if late < 0 || late > time.Duration(tc.late)*time.Millisecond || reads > tc.reads {
					t.Errorf("it ended %v late after %d readings", late, reads)
				}
				if n := strings.Count(logged.String(), "admission stays closed"); n != tc.warnings || !strings.Contains(logged.String(), "orders=1") {
					t.Errorf("%d warnings, want %d: %s", n, tc.warnings, &logged)
				}
				_ = g.Close()
			})
		})
	}
}
