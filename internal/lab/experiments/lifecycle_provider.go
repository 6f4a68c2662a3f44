package experiments

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"seckill/internal/database"
	"seckill/internal/lab/judge"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/payment/sandbox"
)

// provider is a payment provider on its own HTTP server, and the server that takes its webhooks.
type provider struct {
	sale     *paidSale
	box      *sandbox.Sandbox
	webhooks *payment.Webhooks
	client   *payment.Client
	payer    *payment.Provider
	pages    *http.Client
	receiver string // the address for webhooks

	mu       sync.Mutex
	payments map[string]int64 // the orders, by payment
	handled  map[string]int   // events that were taken, by type
}

// handler takes an event that was verified. Its error has the provider send the event again.
type handler func(ctx context.Context, header http.Header, body []byte) error

// openProvider starts a provider that holds its webhooks back until release. A handler of nil is that of the project.
func (s *paidSale) openProvider(b sandbox.Behaviour, handle func(ctx context.Context, e payment.Event) error) {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	key, signing := rand.Text(), payment.SecretPrefix+base64.StdEncoding.EncodeToString(secret)
	p := &provider{sale: s, payments: map[string]int64{}, handled: map[string]int{}}
	s.provider = p
	var err error
	p.box, err = sandbox.Open(s.Context(), sandbox.Config{
		Addr: "127.0.0.1:0", APIKey: key, Secrets: []string{signing}, Behaviour: b, Log: slog.New(slog.DiscardHandler),
	})
	s.Must(err)
	s.Go(func() { s.Must(p.box.Run(s.Context())) })
	p.webhooks, err = payment.NewWebhooks(signing)
	s.Must(err)
	p.client, err = payment.NewClient(payment.ClientConfig{URL: p.box.URL(), Key: key})
	s.Must(err)
	s.Cleanup(p.client.Close)
	p.payer = payment.NewProvider(p.client, "EUR")
	transport := http.DefaultTransport.(*http.Transport).Clone()
	s.Cleanup(transport.CloseIdleConnections)
	p.pages = &http.Client{Transport: transport}

	take := p.project()
	if handle != nil {
		take = p.verified(handle)
	}
	p.listen(take)
}

// project is the handler of the project, which also carries out refunds.
func (p *provider) project() handler {
	settlements, err := payment.NewSettlements(payment.SettlementsConfig{
		Webhooks: p.webhooks, Provider: p.payer, Lifecycle: settling{p.sale.lifecycle}, Store: p.sale.lifecycle,
		Observer: unobserved{}, Log: slog.New(slog.DiscardHandler),
	})
	p.sale.Must(err)
	p.sale.Go(func() { settlements.Run(p.sale.Context()) })
	return settlements.Receive
}

// verified is a handler that sees events with a good signature.
func (p *provider) verified(handle func(context.Context, payment.Event) error) handler {
	return func(ctx context.Context, header http.Header, body []byte) error {
		if _, err := p.webhooks.Verify(header, body); err != nil {
			return err
		}
		e, err := payment.ParseEvent(body)
		if err != nil {
			return err
		}
		return handle(ctx, e)
	}
}

// settling is the project's store as what package payment settles with.
type settling struct{ lifecycle *database.Lifecycle }

// Settle implements [payment.Lifecycle].
func (s settling) Settle(ctx context.Context, r order.Receipt) (order.Settlement, error) {
	return s.lifecycle.MarkPaid(ctx, r)
}

// Refund implements [payment.Lifecycle].
func (s settling) Refund(ctx context.Context, id int64) (order.Order, error) {
	return s.lifecycle.BeginRefund(ctx, id)
}

// unobserved counts nothing.
type unobserved struct{}

func (unobserved) Event(string, string)         {}
func (unobserved) Settled(order.Outcome, int64) {}
func (unobserved) Refund(error)                 {}
func (unobserved) Lookup(error)                 {}
func (unobserved) Unmatched(int64, int64)       {}
func (unobserved) Due(int)                      {}

// listen serves webhooks.
func (p *provider) listen(take handler) {
	s := p.sale
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "127.0.0.1:0")
	s.Must(err)
	p.receiver = "http://" + listener.Addr().String()
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = take(r.Context(), r.Header, body)
		}
		if err != nil {
			s.Logf("a webhook: %v", err)
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if e, err := payment.ParseEvent(body); err == nil {
			p.mu.Lock()
			p.handled[e.Type]++
			p.mu.Unlock()
		}
		w.WriteHeader(http.StatusNoContent)
	})}
	s.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.Must(err)
		}
	})
	s.Cleanup(func() { s.Must(server.Close()) })
}

// release delivers the webhooks that were held back, and all later ones.
func (p *provider) release() { p.box.SetWebhookURL(p.receiver) }

// untilHandled waits until that many events of a type were taken.
func (p *provider) untilHandled(kind string, n int) {
	p.sale.Until(fmt.Sprintf("%d events %s were taken", n, kind), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.handled[kind] >= n
	})
}

// pay creates the payment of an order, and has its buyer press the button on the provider's page.
func (p *provider) pay(id int64) (paymentID string) {
	s := p.sale
	asked, err := s.lifecycle.PaymentOf(s.Context(), id)
	s.Must(err)
	made, err := p.payer.Create(s.Context(), order.PaymentRequest{
		Key: order.PaymentKey(id), OrderID: id, AmountCents: asked.AmountCents, PayBy: asked.PayBy,
	})
	s.Must(err)
	asked.ID, asked.URL = made.ID, made.URL
	kept, err := s.lifecycle.KeepPayment(s.Context(), asked)
	s.Must(err)
	form := strings.NewReader(url.Values{"decision": {"pay"}}.Encode())
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, kept.URL, form)
	s.Must(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := p.pages.Do(req)
	s.Must(err)
	s.Must(resp.Body.Close())
	if now := p.lookUp(kept.ID); now.Status != payment.StatusPaid {
		s.Fatalf("the payment of order %d is %s", id, now.Status)
	}
	p.payments[kept.ID] = id
	return kept.ID
}

func (p *provider) lookUp(paymentID string) payment.Payment {
	now, err := p.client.Payment(p.sale.Context(), paymentID)
	p.sale.Must(err)
	return now
}

// refund gives the money of a payment back, as an operator does at the provider.
func (p *provider) refund(ctx context.Context, paymentID string) error {
	_, err := p.client.Refund(ctx, rand.Text(), paymentID, payment.CreateRefund{AmountCents: lifecycleCents, Currency: "EUR"})
	return err
}

// books are the provider's.
func (p *provider) books() (all []judge.BookedPayment) {
	for id, o := range p.payments {
		now := p.lookUp(id)
		all = append(all, judge.BookedPayment{
			Order: o, Paid: now.Status == payment.StatusPaid, Refunded: now.RefundedCents == now.AmountCents,
		})
	}
	return all
}
