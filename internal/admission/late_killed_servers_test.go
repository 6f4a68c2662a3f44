package admission_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os/exec"
	"regexp"
	"strconv"
	"syscall"
	"testing"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// lateSale is a shop with a payment provider. Its money comes late, and is handled by child processes.
type lateSale struct {
	*shop
	v        *voucher.Voucher
	keys     ledger.Keys
	where    testkit.Database
	provider *sandbox.Sandbox
	api      *payment.Client
}

func newLateSale(t *testing.T, where testkit.Database, stock int64, buckets int) *lateSale {
	t.Helper()
	s := &lateSale{shop: newShop(t, where), where: where}
	s.keys = ledger.KeysOf(s.prefix, admittedVoucher, 0)
	s.v = s.create(admittedVoucher, stock, buckets)
	var err error
	s.provider, err = sandbox.Open(t.Context(), sandbox.Config{
		Addr: "127.0.0.1:0", APIKey: childKey, Secrets: []string{childSecret}, Log: slog.New(slog.DiscardHandler),
	})
	fail.NowIf(t, err)
	ended := make(chan error, 1)
	go func() { ended <- s.provider.Run(t.Context()) }() // which ends before the cleanups
	t.Cleanup(func() {
		fail.If(t, <-ended, "the end of the provider")
	})
	s.api, err = payment.NewClient(payment.ClientConfig{URL: s.provider.URL(), Key: childKey})
	fail.NowIf(t, err)
	t.Cleanup(s.api.Close)
	return s
}

// startChild starts a process that kills itself at a point, and has the provider send its events to it.
func (s *lateSale) startChild(point string) *testkit.Process {
	s.t.Helper()
	p := testkit.StartChild(s.t, lateChild,
		childRedis+"="+s.client.Options().Addr, childEngine+"="+s.where.Engine, childDSN+"="+s.where.DSN, childPrefix+"="+s.prefix,
		childProvider+"="+s.provider.URL(), childPoint+"="+point)
	serving := regexp.MustCompile(`serving on (http\S+)`)
	testkit.Until(s.t, "the child serves or has ended", func() bool {
		select {
		case <-p.Done():
			return true
		default:
			return serving.MatchString(p.Output())
		}
	})
	if found := serving.FindStringSubmatch(p.Output()); found != nil {
		s.provider.SetWebhookURL(found[1])
	}
	return p
}

// pay pays for an order at the provider. The money comes late: the order is over.
func (s *lateSale) pay(id int64) {
	s.t.Helper()
	p, err := s.api.Create(s.t.Context(), order.PaymentKey(id), payment.CreatePayment{
		Reference: fmt.Sprint(id), AmountCents: cents, Currency: "EUR", ExpiresAt: time.Now().Add(time.Hour),
	})
	fail.NowIf(s.t, err)
	resp, err := http.PostForm(p.PayURL, url.Values{"decision": {"pay"}})
	fail.NowIf(s.t, err)
	_ = resp.Body.Close()
}

// book is a payment in the provider's books.
type book struct {
	payment.Payment
	Refunds []payment.Refund
}

// books returns the provider's payments, by order.
func (s *lateSale) books() map[int64]book {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.provider.URL()+"/v1/payments", nil)
	fail.NowIf(s.t, err)
	req.Header.Set("Authorization", "Bearer "+childKey)
	resp, err := http.DefaultClient.Do(req)
	fail.NowIf(s.t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	fail.NowIf(s.t, err)
	var page struct{ Payments []book }
	fail.NowIf(s.t, json.Unmarshal(text, &page))
	all := map[int64]book{}
	for _, b := range page.Payments {
		id, err := strconv.ParseInt(b.Reference, 10, 64)
		fail.NowIf(s.t, err)
		all[id] = b
	}
	return all
}

// received returns what the database has of an order's money; nil if nothing was recorded.
func (s *lateSale) received(id int64) *order.PaymentRecord {
	s.t.Helper()
	d, err := s.lifecycle.Details(s.t.Context(), order.Order{ID: id, VoucherID: s.v.ID})
	fail.NowIf(s.t, err)
	switch len(d.Payments) {
	case 0:
		return nil
	case 1:
		return &d.Payments[0]
	}
	s.t.Fatalf("order %d has the money %+v", id, d.Payments)
	return nil
}

// atRest reports whether the money of an order is final here and at the provider, and no order is pending.
func (s *lateSale) atRest(id int64) bool {
	s.t.Helper()
	got := s.received(id)
	if got == nil || got.Outcome == order.LateUndecided || got.RefundDue {
		return false
	}
	a, err := s.gate.Audit(s.t.Context(), s.v.ID)
	return err == nil && a.Pending == 0 && (got.Outcome.Bought() || !got.RefundedAt.IsZero())
}

// finished compares the final books: an order that is paid was paid for once, and what another one was paid for went
// back once.
func (s *lateSale) finished(id int64, outcome order.Outcome) {
	s.t.Helper()
	o, err := s.db.Orders().Order(s.t.Context(), id)
	fail.NowIf(s.t, err)
	d, err := s.lifecycle.Details(s.t.Context(), o)
	fail.NowIf(s.t, err)
	at := s.books()[id]
	want, refunds := order.Cancelled, 1
	if outcome.Bought() {
		want, refunds = order.Paid, 0
	}
	if o.Status != want || len(d.Payments) != 1 || d.Payments[0].Outcome != outcome || d.Payments[0].RefundDue ||
		d.Payments[0].RefundedAt.IsZero() != outcome.Bought() {
		s.t.Errorf("order %d is %s with %+v, want %s and %s", id, o.Status, d.Payments, want, outcome)
	}
	if at.Status != payment.StatusPaid || len(at.Refunds) != refunds || at.RefundedCents != int64(refunds)*cents {
		s.t.Errorf("order %d is %s, and the provider has %+v", id, o.Status, at)
	}
}

// killed checks that a child has killed itself.
func killed(t *testing.T, p *testkit.Process) {
	t.Helper()
	exit, ended := errors.AsType[*exec.ExitError](p.Wait())
	if !ended {
		t.Fatalf("the process was not killed:\n%s", p.Output())
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("the process ended with %v:\n%s", exit, p.Output())
	}
}

// leftBehind is what a process leaves when it is killed.
type leftBehind struct {
	status   order.Status
	outcome  order.Outcome // of the money
	due      bool          // a refund
	back     bool          // recorded as refunded
	refunds  int           // at the provider
	entries  int64         // of Redis' stream
	reserved bool          // in Redis, for the order
}

func (s *lateSale) leftBehind(id, user int64) (l leftBehind) {
	s.t.Helper()
	o, err := s.db.Orders().Order(s.t.Context(), id)
	fail.NowIf(s.t, err)
	got := s.received(id)
	if got == nil {
		s.t.Fatal("the money is not recorded")
	}
	return leftBehind{
		status: o.Status, outcome: got.Outcome, due: got.RefundDue, back: !got.RefundedAt.IsZero(), refunds: len(s.books()[id].Refunds),
		entries:  s.client.XLen(s.t.Context(), s.keys.Orders).Val(),
		reserved: s.client.HGet(s.t.Context(), s.keys.Users, fmt.Sprint(user)).Val() == ledger.ReservedLate(id, 0),
	}
}

// death is a process that kills itself at a point, and what it leaves behind.
type death struct {
	point string
	left  leftBehind
}

// A process that handles late money kills itself at each point of the way. Another process finishes: the money has paid
// for one voucher, or went back once, and no voucher is lost.
func TestLateMoneyKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	const user, other = 7, 8
	paid, noStock, otherOrder := order.SettledLate, order.RefundNoStock, order.RefundOtherOrder
	recorded := death{pointRecorded, leftBehind{status: order.Cancelled, outcome: order.LateUndecided}}
	reserved := death{pointDecided, leftBehind{status: order.Cancelled, outcome: order.LateUndecided, entries: 1, reserved: true}}
	owed := leftBehind{status: order.Cancelled, outcome: noStock, due: true}
	for name, c := range map[string]struct {
		// before is what happens before the money arrives, then what happens after the first death.
		before, then func(s *lateSale)
		deaths       []death
		want         order.Outcome
	}{
		"paid, recorded": {deaths: []death{recorded}, want: paid},
		"paid, reserved": {deaths: []death{reserved}, want: paid},
		"paid, read":     {deaths: []death{{pointRead, reserved.left}}, want: paid},
		"paid, written": {
			deaths: []death{{pointWritten, leftBehind{status: order.Paid, outcome: paid, entries: 1, reserved: true}}}, want: paid,
		},
		"paid after its reservation was rejected": {
			then: (*lateSale).reopen, deaths: []death{reserved, {pointRejected, reserved.left}}, want: paid,
		},
		"refunded, recorded":   {before: (*lateSale).sellOut, deaths: []death{recorded}, want: noStock},
		"refunded, refused":    {before: (*lateSale).sellOut, deaths: []death{{pointDecided, recorded.left}}, want: noStock},
		"refunded, decided":    {before: (*lateSale).sellOut, deaths: []death{{pointRefund, owed}}, want: noStock},
		"refunded, not called": {before: (*lateSale).sellOut, deaths: []death{{pointCall, owed}}, want: noStock},
		"refunded, called": {
			before: (*lateSale).sellOut, want: noStock,
			deaths: []death{{pointReturned, leftBehind{status: order.Cancelled, outcome: noStock, due: true, refunds: 1}}},
		},
		"refunded, complete": {
			before: (*lateSale).sellOut, want: noStock,
			deaths: []death{{pointCompleted, leftBehind{status: order.Cancelled, outcome: noStock, back: true, refunds: 1}}},
		},
		"refunded for another order": {
			before: func(s *lateSale) { s.mustPlace(user) }, want: otherOrder,
			deaths: []death{{pointRefund, leftBehind{status: order.Cancelled, outcome: otherOrder, due: true}}},
		},
		"refunded while a reservation waits": {
			then: (*lateSale).refundAnyway, want: noStock,
			deaths: []death{reserved, {pointWritten, leftBehind{status: order.Cancelled, outcome: noStock, due: true, entries: 1, reserved: true}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newLateSale(t, testkit.SQLite(t), 2, 1)
			s.mustPlace(other) // and keeps a unit
			id := s.cancelled(s.v, user)
			if c.before != nil {
				c.before(s)
			}
			s.stopWorkers()
			for i, d := range c.deaths {
				if i == 1 {
					c.then(s)
				}
				p := s.startChild(d.point)
				if i == 0 {
					s.pay(id)
				}
				killed(t, p)
				fail.NowUnequal(t, s.leftBehind(id, user), d.left, "left behind")
			}

			p := s.startChild("")
			testkit.Until(t, "another process has finished", func() bool { return s.atRest(id) })
			s.end(p)
			s.finished(id, c.want)
			s.balanced(s.v)
		})
	}
}

// reopen ends the epoch and opens another one, as a process would that finds that Redis has lost something.
func (s *lateSale) reopen() {
	s.t.Helper()
	closed, err := s.db.AdmissionStore().Close(s.t.Context(), s.v.ID)
	fail.NowIf(s.t, err)
	_, err = s.db.AdmissionStore().Open(s.t.Context(), s.v.ID, closed.Epoch)
	fail.NowIf(s.t, err)
}

// refundAnyway decides as a process would that has paused since Redis had no voucher.
func (s *lateSale) refundAnyway() {
	s.t.Helper()
	all, err := s.db.AdmissionStore().LateMoney(s.t.Context(), "", 10)
	fail.NowIf(s.t, err)
	for _, m := range all {
		fail.NowIf(s.t, s.db.AdmissionStore().RefundLate(s.t.Context(), m, order.RefundNoStock))
	}
}

// mustPlace places an order that is written before the workers end.
func (s *lateSale) mustPlace(user int64) {
	s.t.Helper()
	s.bought(s.v, user)
	s.acknowledged(s.v)
}

// sellOut sells the last voucher.
func (s *lateSale) sellOut() { s.mustPlace(9) }

// end stops a child.
func (s *lateSale) end(p *testkit.Process) {
	s.t.Helper()
	fail.If(s.t, p.Stop(), "the child said\n%s", p.Output())
}
