package payment

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// dueRefunds is a store in which refunds are due, and an observer of them.
type dueRefunds struct {
	Store
	Observer
	ids   []string // ascending
	count int      // that are due and have not been carried out
}

func (d *dueRefunds) DueRefunds(_ context.Context, after string, limit int) (due []order.RefundRequest, err error) {
	for _, id := range d.ids {
		if id > after && len(due) < limit {
			due = append(due, order.RefundRequest{Key: "k" + id, PaymentID: id, AmountCents: 100})
		}
	}
	return due, nil
}

func (d *dueRefunds) Refund(error) {}
func (d *dueRefunds) Due(n int)    { d.count = n }

// While the provider fails, a process remembers a bounded number of refunds, whose pauses double up to a minute, and
// tries the others together once a minute. None is starved, and what is no longer due is forgotten.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		client := newClient(t, 0, func(w http.ResponseWriter, _ *http.Request) {
			calls.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		const limit, refunds = 10, 250
		d := &dueRefunds{}
		for i := range refunds {
			d.ids = append(d.ids, fmt.Sprintf("pay_%03d", i))
		}
		s := &Settlements{SettlementsConfig: SettlementsConfig{
			Provider: NewProvider(client, "EUR"), Store: d, Observer: d, Log: slog.New(slog.DiscardHandler),
		}, retries: newRetries(limit)}
		pass := func(name string, after time.Duration, called, still, remembered int) {
			t.Helper()
			simulate.Sleep(after)
			calls.Store(0)
			fail.NowIf(t, s.refundDue(t.Context()))
			if calls.Load() != int64(called) || d.count != still || len(s.retries.of) != remembered {
				t.Errorf("%s: %d calls, %d due, %d remembered; want %d, %d, %d", name, calls.Load(), d.count, len(s.retries.of), called, still, remembered)
			}
		}
		pass("first", 0, refunds, refunds, limit)
		var waited time.Duration
		for _, ms := range []time.Duration{500, 1000, 2000, 4000, 8000, 16000} {
			pass("just before the pause is over", ms*time.Millisecond-1, 0, refunds, limit)
			pass("the pause is over", 1, limit, refunds, limit)
			waited += ms * time.Millisecond
		}
		pass("the others wait for a minute", time.Minute-waited-1, 0, refunds, limit)
		pass("that of the others is over", 1, refunds-limit, refunds, limit)
		pass("the longest pause but one", 3500*time.Millisecond, limit, refunds, limit) // 32 s after the last
		for range 2 {
			pass("the longest pause", time.Minute, refunds, refunds, limit)
		}
		d.ids = d.ids[limit:]
		pass("the remembered ones are refunded", 0, 0, refunds-limit, 0)
		pass("others take their place", time.Minute, refunds-limit, refunds-limit, limit)
		d.ids = d.ids[refunds-limit-3:]
		pass("three are left", time.Minute, 3, 3, 3)
		if !s.retries.rest.IsZero() {
			t.Error("refunds that are remembered wait for the others")
		}
		d.ids = nil
		pass("none is left", 0, 0, 0, 0)
	})
}
