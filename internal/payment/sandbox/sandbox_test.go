package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

func TestPayAndRefund(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{})
		created := p.create(t, "k", anHour())
		p.wantStatus(t, created.ID, payment.StatusOpen)
		if page := p.press(t, created, "pay"); !strings.Contains(page, "Paid.") {
			t.Errorf("the page after paying: %s", page)
		}
		// A second decision changes nothing.
		p.press(t, created, "refuse")
		p.press(t, created, "pay")
		p.wantStatus(t, created.ID, payment.StatusPaid)
		r.want(t, time.Second, "paid")
		first, err := p.Refund(t.Context(), "r1", created.ID, back(3000))
		fail.NowIf(t, err)
		if again, err := p.Refund(t.Context(), "r1", created.ID, back(3000)); err != nil || again != first {
			t.Errorf("the repeated refund: %+v, %v, want %+v", again, err, first)
		}
		for key, cents := range map[string]int64{"r1": 1, "r2": 5001} { // the key of another amount; more than is left
			fail.Unless(t, fail.Of(p.Refund(t.Context(), key, created.ID, back(cents))), payment.ErrRefused, "%d under %s", cents, key)
		}
		fail.If(t, fail.Of(p.Refund(t.Context(), "r3", created.ID, back(5000))))
		r.want(t, time.Second, "paid", "refunded", "refunded")
		if now, err := p.Payment(t.Context(), created.ID); err != nil || now.RefundedCents != 8000 {
			t.Errorf("%+v, %v", now, err)
		}
	})
}

func TestCreateIsIdempotent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil, nil)
		req := anHour()
		var wg sync.WaitGroup
		ids := make([]string, 16)
		for i := range ids {
			wg.Go(func() {
				if one, err := p.Create(t.Context(), "k", req); err != nil {
					t.Error(err)
				} else {
					ids[i] = one.ID
				}
			})
		}
		wg.Wait()
		for _, id := range ids {
			fail.NowUnequal(t, id, ids[0], "one key has several payments")
		}
		if found, err := p.PaymentUnder(t.Context(), "k"); err != nil || found.ID != ids[0] {
			t.Errorf("under the key: %+v, %v", found, err)
		}
		fail.Unless(t, fail.Of(p.PaymentUnder(t.Context(), "other")), payment.ErrNotFound, "under another key")
		fail.Unless(t, fail.Of(p.Payment(t.Context(), "pay_unknown")), payment.ErrNotFound, "an unknown payment")
		req.AmountCents++
		fail.Unless(t, fail.Of(p.Create(t.Context(), "k", req)), payment.ErrRefused, "the same key for another amount")
	})
}

// A payment that was refused may be tried again, and its page has the way back to where the buyer came from.
func TestRefusedAndTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{})
		req := anHour()
		req.ReturnURL = "https://shop.example/#order=4711"
		created := p.create(t, "k", req)
		page := p.press(t, created, "refuse")
		fail.Without(t, page, "You have refused", "Try again: pay", "1h0m0s left to pay", `<a href="https://shop.example/#order=4711">Back to the shop</a>`)
		r.want(t, time.Second, "refused")
		if page := p.press(t, created, "pay"); !strings.Contains(page, "Paid.") {
			t.Errorf("the page after paying: %s", page)
		}
		p.wantStatus(t, created.ID, payment.StatusPaid)
		r.want(t, time.Second, "refused", "paid")
		_, page = p.send(t, "GET", "/pay/"+created.ID, "", "Accept-Language: fr, zh-CN;q=0.9, en;q=0.8")
		fail.Without(t, page, `<html lang="zh-CN">`, "已付款。", ">返回商城</a>")
		for _, wrong := range []string{"javascript:alert(1)", "//shop.example/", "/pay", strings.Repeat("x", 501)} {
			req.ReturnURL = wrong
			fail.Unless(t, fail.Of(p.Create(t.Context(), "other", req)), payment.ErrRefused, "return_url %q", wrong)
		}
	})
}

func TestRefuseAndExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{})
		refused := p.create(t, "k1", anHour())
		if page := p.press(t, refused, "refuse"); !strings.Contains(page, "refused") {
			t.Errorf("the page after refusing: %s", page)
		}
		expired := p.create(t, "k2", anHour())
		r.want(t, time.Hour-1, "refused")
		p.wantStatus(t, expired.ID, payment.StatusOpen)
		r.want(t, time.Second, "refused", "expired", "expired") // nobody asks for them
		if page := p.press(t, expired, "pay"); !strings.Contains(page, "The time to pay is over") {
			t.Errorf("the page after the time: %s", page)
		}
		p.wantStatus(t, expired.ID, payment.StatusExpired)
		fail.Unless(t, fail.Of(p.Refund(t.Context(), "r", expired.ID, back(8000))), payment.ErrRefused, "a refund of what was not paid")
	})
}

// An event is delivered until it is accepted, after pauses that double, and then as often as it is to be repeated;
// always under the same id.
func TestDeliversUntilAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{Duplicate: 2})
		r.refuses = 3
		p.press(t, p.create(t, "k", anHour()), "pay")
		r.want(t, time.Minute, "paid", "paid", "paid")
		for i, want := range []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
			if pause := r.arrivals[i+1].Sub(r.arrivals[i]); pause < want || pause > want+10*time.Millisecond {
				t.Errorf("pause %d is %v, want %v", i, pause, want)
			}
		}
		if r.events[0].id != r.events[1].id || r.events[1].id != r.events[2].id {
			t.Errorf("the repetitions have ids of their own: %v", r.events)
		}
	})
}

// The newest of the events that were gathered comes first.
func TestReorders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{ReorderMS: 1000})
		created := p.create(t, "k", anHour())
		p.press(t, created, "pay")
		simulate.Sleep(500 * time.Millisecond)
		fail.NowIf(t, fail.Of(p.Refund(t.Context(), "r", created.ID, back(8000))))
		r.want(t, 499*time.Millisecond)
		r.want(t, time.Second, "refunded", "paid")
	})
}

func TestLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{Lose: 1})
		lost := p.create(t, "k", anHour())
		p.press(t, lost, "pay")
		fail.NowIf(t, p.sandbox.SetBehaviour(sandbox.Behaviour{}))
		p.press(t, p.create(t, "k2", anHour()), "refuse")
		r.want(t, time.Minute, "refused")
		p.wantStatus(t, lost.ID, payment.StatusPaid) // a look-up finds it
	})
}

// A slow provider has done what it was asked before it answers.
func TestAnswersSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, nil, func(c *sandbox.Config) { c.Behaviour.SlowMS = 1000 })
		req, began := anHour(), time.Now()
		_, err := p.client(t, 999*time.Millisecond).Create(t.Context(), "k", req)
		if !errors.Is(err, payment.ErrUnavailable) || time.Since(began) != 999*time.Millisecond {
			t.Errorf("given up after %v: %v, want %v", time.Since(began), err, payment.ErrUnavailable)
		}
		fail.NowIf(t, p.sandbox.SetBehaviour(sandbox.Behaviour{}))
		first, err := p.PaymentUnder(t.Context(), "k")
		fail.NowIf(t, err)
		fail.Unequal(t, p.create(t, "k", req).ID, first.ID, "the repetition created")
	})
}

// Money that is on its way arrives, although the time to pay is over.
func TestPaysLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, r := behaving(t, sandbox.Behaviour{PayLateMS: 2000})
		req := anHour()
		req.ExpiresAt = time.Now().Add(time.Second)
		created, paid := p.create(t, "k", req), time.Now()
		if page := p.press(t, created, "pay"); !strings.Contains(page, "on its way") {
			t.Errorf("the page after paying: %s", page)
		}
		r.want(t, 1999*time.Millisecond)
		r.want(t, time.Second, "paid")
		if now, err := p.Payment(t.Context(), created.ID); err != nil || now.PaidAt == nil || !now.PaidAt.Equal(paid.Add(2*time.Second)) {
			t.Errorf("%+v, %v: want it paid 2 s after %v", now, err, paid)
		}
	})
}

// Payments that were answered, and events that are yet to be delivered, survive the process.
func TestTheFileKeepsEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "provider.jsonl")
		withFile := func(c *sandbox.Config) { c.File = file }
		before := start(t, nil, withFile)
		req := anHour()
		created := before.create(t, "k", req)
		before.press(t, created, "pay")
		refunded, err := before.Refund(t.Context(), "r", created.ID, back(8000))
		fail.NowIf(t, err)
		fail.NowIf(t, before.sandbox.SetBehaviour(sandbox.Behaviour{Duplicate: 1}))
		before.stop()
		text, err := os.ReadFile(file)
		fail.NowIf(t, err)
		text = append(text, `{"payment":{"id":"pay_cut`...) // a process that was killed while it wrote
		fail.NowIf(t, os.WriteFile(file, text, 0o600))

		r := newReceiver(t)
		after := start(t, r, withFile)
		if again := after.create(t, "k", req); again.ID != created.ID || again.Status != payment.StatusPaid {
			t.Errorf("after the restart the key has %+v", again)
		}
		if again, err := after.Refund(t.Context(), "r", created.ID, back(8000)); err != nil || again != refunded {
			t.Errorf("after the restart the refund is %+v, %v, want %+v", again, err, refunded)
		}
		simulate.Sleep(time.Second)
		synctest.Wait()
		if len(r.events) != 2 { // those of before, once each, in any order
			t.Errorf("events of before: %+v", r.events)
		}
		r.events = nil
		after.press(t, after.create(t, "k2", req), "pay")
		r.want(t, time.Second, "paid", "paid") // the switch was kept, too
		if _, text := after.send(t, "GET", "/", ""); !strings.Contains(text, "Events to deliver: 0") {
			t.Errorf("after all deliveries: %s", text)
		}
		after.stop()
		again := start(t, r, withFile)
		again.press(t, again.create(t, "k3", req), "refuse")
		r.want(t, time.Minute, "paid", "paid", "refused", "refused") // what was delivered is not delivered again
	})
}
