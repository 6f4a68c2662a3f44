package sandbox

import (
	_ "embed" // the page
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"time"

	provider "seckill/internal/payment"
	"seckill/internal/samesite"
)

//go:embed page.html
var pageHTML string

//go:embed pay.css
var styleSheet []byte

// pageData is what the page shows.
type pageData struct {
	words
	Found bool
	payment
	left time.Duration
}

// Left is the time left to pay, to the second.
func (p pageData) Left() string { return p.left.Truncate(time.Second).String() }

// Amount is the amount for people.
func (p pageData) Amount() string {
	return money(p.AmountCents, p.Currency)
}

// Back is the amount that was given back, for people.
func (p pageData) Back() string {
	return money(p.RefundedCents, p.Currency)
}

// money formats an amount: 80.00 EUR.
func money(cents int64, currency string) string {
	return fmt.Sprintf("%d.%02d %s", cents/100, cents%100, currency)
}

// ownPage refuses what a page of another site can make a browser send: nothing here needs the API key, and a decision
// changes a payment.
func (s *Sandbox) ownPage(page http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch err := s.site.Check(r); {
		case errors.Is(err, samesite.ErrHost):
			http.Error(w, "the sandbox has another host name; -public-url tells it one", http.StatusForbidden)
		case err != nil:
			http.Error(w, "a page of another site has sent this", http.StatusForbidden)
		default:
			page(w, r)
		}
	}
}

// showPage is GET /pay/{id}.
func (s *Sandbox) showPage(w http.ResponseWriter, r *http.Request) {
	p, err := s.books.payment(r.PathValue("id"))
	status := http.StatusOK
	switch {
	case errors.Is(err, errUnknown):
		status = http.StatusNotFound
	case err != nil:
		s.failed(w, err)
		return
	}
	s.html(w, status, s.pages.Lookup("page"), pageData{
		words: wordsFor(r), Found: err == nil, payment: p, left: max(0, p.ExpiresAt.Sub(s.books.now())),
	})
}

// decide is POST /pay/{id}. It answers with the page's address, so that a reload repeats nothing.
func (s *Sandbox) decide(w http.ResponseWriter, r *http.Request) {
	decision := r.PostFormValue("decision")
	if decision != "pay" && decision != "refuse" {
		http.Error(w, "decision is neither pay nor refuse", http.StatusBadRequest)
		return
	}
	p, err := s.books.decide(r.PathValue("id"), decision == "pay")
	switch {
	case errors.Is(err, errUnknown):
		s.html(w, http.StatusNotFound, s.pages.Lookup("page"), pageData{words: wordsFor(r)})
	case err != nil:
		s.failed(w, err)
	default:
		// Relative to the page: the service serves it below a path of its own. http.Redirect would make that absolute.
		w.Header().Set("Location", p.ID)
		w.WriteHeader(http.StatusSeeOther)
	}
}

// Pages returns the payment pages for a server that has checked that a request names it, and that serves them below a
// path of its own. A decision that a page of another site has sent is refused.
func (s *Sandbox) Pages() http.Handler {
	forgery := http.NewCrossOriginProtection()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pay/{id}", s.showPage)
	mux.Handle("POST /pay/{id}", forgery.Handler(http.HandlerFunc(s.decide)))
	mux.HandleFunc("GET /pay.css", s.style)
	return http.MaxBytesHandler(mux, maxBody)
}

// showBooks is GET /: what the sandbox is, with its sums. It names no payment: a page's address is its secret.
func (s *Sandbox) showBooks(w http.ResponseWriter, r *http.Request) {
	s.html(w, http.StatusOK, s.pages.Lookup("books"), struct {
		words
		sums
	}{wordsFor(r), s.books.sums()})
}

func (s *Sandbox) style(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(styleSheet) // fails when the client is gone
}

func (s *Sandbox) html(w http.ResponseWriter, status int, page *template.Template, data any) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'")
	// The address is the secret of the page. With no-referrer the page's own form would have the Origin null.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept-Language")
	w.WriteHeader(status)
	if err := page.Execute(w, data); err != nil {
		s.cfg.Log.Debug("sandbox: a page was not written to its end", "error", err)
	}
}

func (s *Sandbox) failed(w http.ResponseWriter, err error) {
	s.cfg.Log.Error("sandbox: a page failed", "error", err)
	http.Error(w, "something went wrong", http.StatusInternalServerError)
}

// sums are what the sandbox has done.
type sums struct{ Payments, Paid, Refunds, Undelivered int }

func (b *books) sums() sums {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := sums{Payments: len(b.payments), Undelivered: len(b.events)}
	for _, p := range b.payments {
		out.Refunds += len(p.Refunds)
		if p.Status == provider.StatusPaid {
			out.Paid++
		}
	}
	return out
}
