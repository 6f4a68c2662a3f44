package sandbox_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
	"seckill/internal/testkit"
)

func TestPayAndRefund(t *testing.T) {
	r := newReceiver(t)
	p := startFor(t, r, sandbox.Behaviour{})
	created := p.create(t, "k", anHour())
	if created.Status != payment.StatusOpen {
		t.Errorf("status %s", created.Status)
	}
	if page := press(t, created.PayURL, "pay"); !strings.Contains(page, "Paid.") {
		t.Errorf("the page after paying: %s", page)
	}
	r.await(t, "paid")
	// A second decision changes nothing.
	press(t, created.PayURL, "refuse")
	press(t, created.PayURL, "pay")
	if got := p.status(t, created.ID); got != payment.StatusPaid {
		t.Errorf("status %s", got)
	}
	part := payment.CreateRefund{AmountCents: 3000, Currency: "EUR"}
	first, err := p.Refund(t.Context(), "r1", created.ID, part)
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Refund(t.Context(), "r1", created.ID, part)
	if err != nil || again != first {
		t.Errorf("the repeated refund: %+v, %v, want %+v", again, err, first)
	}
	if _, err := p.Refund(t.Context(), "r1", created.ID, payment.CreateRefund{AmountCents: 1, Currency: "EUR"}); !errors.Is(err, payment.ErrRefused) {
		t.Errorf("the same key for another amount: %v", err)
	}
	if _, err := p.Refund(t.Context(), "r2", created.ID, payment.CreateRefund{AmountCents: 5001, Currency: "EUR"}); !errors.Is(err, payment.ErrRefused) {
		t.Errorf("more than is left: %v", err)
	}
	if _, err := p.Refund(t.Context(), "r3", created.ID, payment.CreateRefund{AmountCents: 5000, Currency: "EUR"}); err != nil {
		t.Error(err)
	}
	r.await(t, "paid", "refunded", "refunded")
	if now, err := p.Payment(t.Context(), created.ID); err != nil || now.RefundedCents != 8000 {
		t.Errorf("%+v, %v", now, err)
	}
}

func TestCreateIsIdempotent(t *testing.T) {
	p := start(t, func(*sandbox.Config) {})
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
		if id != ids[0] {
			t.Fatalf("one key has several payments: %v", ids)
		}
	}
	if found, err := p.PaymentUnder(t.Context(), "k"); err != nil || found.ID != ids[0] {
		t.Errorf("under the key: %+v, %v", found, err)
	}
	if _, err := p.PaymentUnder(t.Context(), "other"); !errors.Is(err, payment.ErrNotFound) {
		t.Errorf("under another key: %v", err)
	}
	if _, err := p.Payment(t.Context(), "pay_unknown"); !errors.Is(err, payment.ErrNotFound) {
		t.Errorf("an unknown payment: %v", err)
	}
	req.AmountCents++
	if _, err := p.Create(t.Context(), "k", req); !errors.Is(err, payment.ErrRefused) {
		t.Errorf("the same key for another amount: %v", err)
	}
}

func TestRefuseAndExpire(t *testing.T) {
	r := newReceiver(t)
	p := startFor(t, r, sandbox.Behaviour{})
	refused := p.create(t, "k1", anHour())
	if page := press(t, refused.PayURL, "refuse"); !strings.Contains(page, "refused") {
		t.Errorf("the page after refusing: %s", page)
	}
	r.await(t, "refused")
	req := anHour()
	req.ExpiresAt = time.Now().Add(time.Second)
	expired := p.create(t, "k2", req)
	r.await(t, "refused", "expired") // nobody asks for it
	if page := press(t, expired.PayURL, "pay"); !strings.Contains(page, "The time to pay is over") {
		t.Errorf("the page after the time: %s", page)
	}
	if got := p.status(t, expired.ID); got != payment.StatusExpired {
		t.Errorf("status %s", got)
	}
	if _, err := p.Refund(t.Context(), "r", expired.ID, payment.CreateRefund{AmountCents: 8000, Currency: "EUR"}); !errors.Is(err, payment.ErrRefused) {
		t.Errorf("a refund of what was not paid: %v", err)
	}
}

// An event is delivered until it is accepted, under the same id.
func TestDeliversUntilAccepted(t *testing.T) {
	r := newReceiver(t)
	r.refuses = 3
	p := startFor(t, r, sandbox.Behaviour{})
	press(t, p.create(t, "k", anHour()).PayURL, "pay")
	r.await(t, "paid")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refused != 3 {
		t.Errorf("%d attempts before the one that was accepted, want 3", r.refused)
	}
}

func TestDuplicates(t *testing.T) {
	r := newReceiver(t)
	p := startFor(t, r, sandbox.Behaviour{Duplicate: 2})
	press(t, p.create(t, "k", anHour()).PayURL, "pay")
	r.await(t, "paid", "paid", "paid")
	if r.events[0].id != r.events[1].id || r.events[1].id != r.events[2].id {
		t.Errorf("the repetitions have ids of their own: %v", r.events)
	}
}

// The newest of the events that were gathered comes first.
func TestReorders(t *testing.T) {
	r := newReceiver(t)
	p := startFor(t, &receiver{}, sandbox.Behaviour{ReorderMS: 1}) // without an address they are gathered
	created := p.create(t, "k", anHour())
	press(t, created.PayURL, "pay")
	if _, err := p.Refund(t.Context(), "r", created.ID, payment.CreateRefund{AmountCents: 8000, Currency: "EUR"}); err != nil {
		t.Fatal(err)
	}
	over := time.Now().Add(time.Millisecond)
	testkit.Until(t, "the window is over", func() bool { return time.Now().After(over) })
	p.sandbox.SetWebhookURL(r.url)
	r.await(t, "refunded", "paid")
}

func TestLoses(t *testing.T) {
	r := newReceiver(t)
	p := startFor(t, r, sandbox.Behaviour{Lose: 1})
	lost := p.create(t, "k", anHour())
	press(t, lost.PayURL, "pay")
	if err := p.sandbox.SetBehaviour(sandbox.Behaviour{}); err != nil {
		t.Fatal(err)
	}
	press(t, p.create(t, "k2", anHour()).PayURL, "refuse")
	r.await(t, "refused")
	if got := p.status(t, lost.ID); got != payment.StatusPaid { // who looks, finds it
		t.Errorf("status %s", got)
	}
}

// A slow provider has done what it was asked before it answers.
func TestAnswersSlowly(t *testing.T) {
	p := start(t, func(c *sandbox.Config) { c.Behaviour.SlowMS = int(time.Hour.Milliseconds()) })
	hasty, err := payment.NewClient(payment.ClientConfig{URL: p.sandbox.URL(), Key: apiKey, Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(hasty.Close)
	req, first := anHour(), payment.Payment{}
	testkit.Until(t, "the payment was created", func() bool { // a busy machine may not even connect in time
		if _, err := hasty.Create(t.Context(), "k", req); !errors.Is(err, payment.ErrUnavailable) {
			t.Fatalf("err = %v, want %v", err, payment.ErrUnavailable)
		}
		if err := p.sandbox.SetBehaviour(sandbox.Behaviour{}); err != nil {
			t.Fatal(err)
		}
		first, err = p.PaymentUnder(t.Context(), "k")
		return err == nil
	})
	if again := p.create(t, "k", req); again.ID != first.ID {
		t.Errorf("the repetition created %s beside %s", again.ID, first.ID)
	}
}

// Money that is on its way arrives, although the time to pay is over.
func TestPaysLate(t *testing.T) {
	r := newReceiver(t)
	p := startFor(t, r, sandbox.Behaviour{})
	req, created := anHour(), payment.Payment{}
	for limit := time.Second; ; limit *= 2 { // a busy machine may not press the button in time
		if err := p.sandbox.SetBehaviour(sandbox.Behaviour{PayLateMS: int(limit.Milliseconds()) + 100}); err != nil {
			t.Fatal(err)
		}
		req.ExpiresAt = time.Now().Add(limit)
		created = p.create(t, fmt.Sprint("k", limit), req)
		if strings.Contains(press(t, created.PayURL, "pay"), "on its way") {
			break
		}
	}
	testkit.Until(t, "the money is there", func() bool { return slices.Contains(r.kinds(), "paid") })
	now, err := p.Payment(t.Context(), created.ID)
	if err != nil || now.PaidAt == nil || !now.PaidAt.After(req.ExpiresAt) {
		t.Errorf("%+v, %v: want paid after %v", now, err, req.ExpiresAt)
	}
}

// Payments that were answered, and events that are yet to be delivered, survive the process.
func TestTheFileKeepsEverything(t *testing.T) {
	r := newReceiver(t)
	file := filepath.Join(t.TempDir(), "provider.jsonl")
	withFile := func(c *sandbox.Config) { c.File = file }
	before := start(t, withFile)
	req := anHour()
	created := before.create(t, "k", req)
	press(t, created.PayURL, "pay")
	refunded, err := before.Refund(t.Context(), "r", created.ID, payment.CreateRefund{AmountCents: 8000, Currency: "EUR"})
	if err != nil {
		t.Fatal(err)
	}
	if err := before.sandbox.SetBehaviour(sandbox.Behaviour{Duplicate: 1}); err != nil {
		t.Fatal(err)
	}
	before.stop()
	appendTo(t, file, `{"payment":{"id":"pay_cut`) // a process that was killed while it wrote

	after := start(t, func(c *sandbox.Config) { withFile(c); c.WebhookURL = r.url })
	if again := after.create(t, "k", req); again.ID != created.ID || again.Status != payment.StatusPaid {
		t.Errorf("after the restart the key has %+v", again)
	}
	if again, err := after.Refund(t.Context(), "r", created.ID, payment.CreateRefund{AmountCents: 8000, Currency: "EUR"}); err != nil || again != refunded {
		t.Errorf("after the restart the refund is %+v, %v, want %+v", again, err, refunded)
	}
	testkit.Until(t, "both events", func() bool { return len(r.kinds()) == 2 }) // those of before, once each
	press(t, after.create(t, "k2", req).PayURL, "pay")
	testkit.Until(t, "an event, twice", func() bool { return len(r.kinds()) == 4 }) // the switch was kept, too

	testkit.Until(t, "the sandbox knows that they were accepted", func() bool {
		_, text := send(t, after.sandbox.URL(), "GET", "/", "", "")
		return strings.Contains(text, "Events to deliver: 0")
	})
	after.stop()
	again := start(t, func(c *sandbox.Config) { withFile(c); c.WebhookURL = r.url })
	press(t, again.create(t, "k3", req).PayURL, "refuse")
	testkit.Until(t, "the new event, twice", func() bool { return len(r.kinds()) >= 6 })
	if got := r.kinds(); len(got) != 6 {
		t.Errorf("events %v: what was delivered is delivered again after a restart", got)
	}
}
