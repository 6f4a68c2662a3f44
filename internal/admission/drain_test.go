package admission

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/admission/ledger"
)

// countedLedger counts how often the buckets are read.
type countedLedger struct {
	*fakeLedger
	read int
}

func (c *countedLedger) States(ctx context.Context, buckets []ledger.Keys) []ledger.State {
	c.read++
	return c.fakeLedger.States(ctx, buckets)
}

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
			synctest.Test(t, func(t *testing.T) {
				sh := newStore(10)
				counted := &countedLedger{fakeLedger: newFakeLedger(sh, 10)}
				counted.buckets[0].state.Pending = 3
				closed, err := sh.Close(t.Context(), sh.voucher.ID)
				must(t, err)
				var logged bytes.Buffer
				g := newGate(Config{Store: sh, Log: slog.New(slog.NewTextHandler(&logged, nil))}.WithDefaults(), counted)
				time.AfterFunc(tc.lasts, func() {
					counted.mu.Lock()
					defer counted.mu.Unlock()
					counted.buckets[0].state.Pending = 0
				})
				begun := time.Now()
				must(t, newVoucherState(g.core, &sh.voucher).drain(t.Context(), closed.Epoch))
				late := time.Since(begun) - tc.lasts
				if late < 0 || late > time.Duration(tc.late)*time.Millisecond || counted.read > tc.reads {
					t.Errorf("it ended %v late after %d readings", late, counted.read)
				}
				if n := strings.Count(logged.String(), "admission stays closed"); n != tc.warnings || !strings.Contains(logged.String(), "orders=3") {
					t.Errorf("%d warnings, want %d: %s", n, tc.warnings, &logged)
				}
				_ = g.Close()
			})
		})
	}
}
