package payment

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"seckill/internal/order"
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

// While the provider fails, a process remembers a bounded number of refunds, and tries the others together. None is
// starved, and what is no longer due is forgotten.
func TestRetriesAreBounded(t *testing.T) {
	var calls atomic.Int64
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer failing.Close()
	const limit, refunds = 10, 250
	d := &dueRefunds{}
	for i := range refunds {
		d.ids = append(d.ids, fmt.Sprintf("pay_%03d", i))
	}
	s := &Settlements{SettlementsConfig: SettlementsConfig{
		Provider: NewProvider(newClient(t, failing.URL, time.Minute), "EUR"), Store: d, Observer: d, Log: slog.New(slog.DiscardHandler),
	}, retries: newRetries(limit)}
	pass := func(name string, called, still, remembered int) {
		t.Helper()
		calls.Store(0)
		if err := s.refundDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		if calls.Load() != int64(called) || d.count != still || len(s.retries.of) != remembered {
			t.Errorf("%s: %d calls, %d due, %d remembered; want %d, %d, %d", name, calls.Load(), d.count, len(s.retries.of), called, still, remembered)
		}
	}
	pass("first", refunds, refunds, limit)
	pass("at once", 0, refunds, limit)
	for id, one := range s.retries.of {
		s.retries.of[id] = retry{failed: one.failed}
	}
	pass("the pauses are over", limit, refunds, limit)
	s.retries.rest = time.Now()
	pass("that of the others is over", refunds-limit, refunds, limit)
	d.ids = d.ids[limit:]
	pass("the remembered ones are refunded", 0, refunds-limit, 0)
	s.retries.rest = time.Now()
	pass("others take their place", refunds-limit, refunds-limit, limit)
	d.ids = d.ids[refunds-limit-3:]
	s.retries.rest = time.Now()
	pass("three are left", 3, 3, 3)
	if !s.retries.rest.IsZero() {
		t.Error("refunds that are remembered wait for the others")
	}
	d.ids = nil
	pass("none is left", 0, 0, 0)
}

// The pauses double up to a minute.
func TestPausesBetweenRefunds(t *testing.T) {
	now := time.Now()
	var r retry
	for _, want := range []time.Duration{500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000} {
		if r = r.next(now); r.at.Sub(now) != want*time.Millisecond {
			t.Errorf("after %d failures a pause of %v, want %v", r.failed, r.at.Sub(now), want*time.Millisecond)
		}
	}
}
