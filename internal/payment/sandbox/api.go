package sandbox

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	provider "seckill/internal/payment"
)

const (
	// maxBody bounds the bodies of requests, in bytes.
	maxBody = 16 << 10
	maxKey  = 128
	// maxReturn bounds a return_url, in bytes.
	maxReturn = 500
	maxPage   = 1000
	// maxAmount is that of a voucher, and more than anybody pays.
	maxAmount = 10_000_000_000
)

func (s *Sandbox) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/payments", s.api(s.createPayment))
	mux.HandleFunc("GET /v1/payments", s.api(s.listPayments))
	mux.HandleFunc("GET /v1/payments/{id}", s.api(s.lookUp))
	mux.HandleFunc("POST /v1/payments/{id}/refunds", s.api(s.createRefund))
	mux.HandleFunc("GET /sandbox/behaviour", s.api(s.showBehaviour))
	mux.HandleFunc("PUT /sandbox/behaviour", s.api(s.changeBehaviour))
	mux.HandleFunc("GET /pay/{id}", s.ownPage(s.showPage))
	mux.HandleFunc("POST /pay/{id}", s.ownPage(s.decide))
	mux.HandleFunc("GET /pay.css", s.ownPage(s.style))
	mux.HandleFunc("GET /{$}", s.ownPage(s.showBooks))
	return http.MaxBytesHandler(mux, maxBody)
}

// badRequestError is an error that is the caller's.
type badRequestError struct{ message string }

func (e badRequestError) Error() string { return e.message }

// api makes a handler of a function that returns the answer. An answer that is slow is so after the work was done:
// whoever gives up does not know whether it was.
func (s *Sandbox) api(do func(r *http.Request) (status int, answer any, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if !s.authorized(r) {
			writeJSON(w, http.StatusUnauthorized, provider.Problem{Code: "unauthorized", Message: "the API key is missing or wrong"})
			return
		}
		status, answer, err := do(r)
		if err != nil {
			status, answer = problemOf(err)
			if status == http.StatusInternalServerError {
				s.cfg.Log.Error("sandbox: a call failed", "error", err)
			}
		}
		if slow := milliseconds(s.books.getBehaviour().SlowMS); slow > 0 && r.URL.Path != "/sandbox/behaviour" {
			select {
			case <-time.After(slow):
			case <-r.Context().Done():
				return
			}
		}
		writeJSON(w, status, answer)
	}
}

// problemOf is the one table of errors.
func problemOf(err error) (int, provider.Problem) {
	_, bad := errors.AsType[badRequestError](err)
	_, over := errors.AsType[*http.MaxBytesError](err)
	switch {
	case bad:
		return http.StatusBadRequest, provider.Problem{Code: "invalid_request", Message: err.Error()}
	case over:
		return http.StatusRequestEntityTooLarge, provider.Problem{Code: "payload_too_large", Message: "the body is too large"}
	case errors.Is(err, errUnknown):
		return http.StatusNotFound, provider.Problem{Code: provider.CodeNotFound, Message: "there is no such payment"}
	case errors.Is(err, errKeyReused):
		return http.StatusUnprocessableEntity, provider.Problem{Code: "idempotency_key_reused", Message: "the key belongs to another request"}
	case errors.Is(err, errTooMuch):
		return http.StatusUnprocessableEntity, provider.Problem{Code: "not_refundable", Message: "the payment has not that much to give back"}
	}
	return http.StatusInternalServerError, provider.Problem{Code: "internal", Message: "something went wrong"}
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // fails when the client is gone
}

// readJSON reads a call of the provider's API. It ignores members that it does not know, as providers do.
func readJSON(r *http.Request, into any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	if err := provider.Unmarshal(body, into); err != nil {
		return badRequestError{"the body is not the JSON that is expected: " + err.Error()}
	}
	return nil
}

func idempotencyKey(r *http.Request) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if key == "" || len(key) > maxKey {
		return "", badRequestError{"an Idempotency-Key of 1 to " + strconv.Itoa(maxKey) + " bytes is needed"}
	}
	return key, nil
}

func checkMoney(cents int64, currency string) error {
	if cents < 1 || cents > maxAmount {
		return badRequestError{"amount_cents is out of bounds"}
	}
	if err := provider.CheckCurrency(currency); err != nil {
		return badRequestError{"currency: " + err.Error()}
	}
	return nil
}

func (s *Sandbox) createPayment(r *http.Request) (int, any, error) {
	key, err := idempotencyKey(r)
	if err != nil {
		return 0, nil, err
	}
	var req provider.CreatePayment
	if err := readJSON(r, &req); err != nil {
		return 0, nil, err
	}
	if err := checkMoney(req.AmountCents, req.Currency); err != nil {
		return 0, nil, err
	}
	if len(req.ReturnURL) > maxReturn {
		return 0, nil, badRequestError{"return_url is too long"}
	}
	if u, err := url.Parse(req.ReturnURL); req.ReturnURL != "" && (err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "") {
		return 0, nil, badRequestError{"return_url is no address of a page"}
	}
	if req.Reference == "" || len(req.Reference) > 64 || req.ExpiresAt.IsZero() {
		return 0, nil, badRequestError{"reference (1 to 64 bytes) and expires_at are needed"}
	}
	p, err := s.books.create(key, req)
	return http.StatusCreated, p.Payment, err
}

func (s *Sandbox) lookUp(r *http.Request) (int, any, error) {
	p, err := s.books.payment(r.PathValue("id"))
	return http.StatusOK, p.Payment, err
}

// listed is a page of the payments.
type listed struct {
	Payments []listedPayment `json:"payments"`
	Next     int             `json:"next,omitempty"`
}

type listedPayment struct {
	provider.Payment
	Refunds []provider.Refund `json:"refunds"`
}

func (s *Sandbox) listPayments(r *http.Request) (int, any, error) {
	after := 0
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			return 0, nil, badRequestError{"after is no number"}
		}
	}
	page, err := s.books.list(after, maxPage), error(nil)
	if key := r.URL.Query().Get("key"); key != "" {
		page, err = s.books.under(key)
	}
	out := listed{Payments: []listedPayment{}}
	for _, p := range page {
		one := listedPayment{Payment: p.Payment, Refunds: []provider.Refund{}}
		for _, r := range p.Refunds {
			one.Refunds = append(one.Refunds, r.Refund)
		}
		out.Payments = append(out.Payments, one)
	}
	if len(page) == maxPage {
		out.Next = after + maxPage
	}
	return http.StatusOK, out, err
}

func (s *Sandbox) createRefund(r *http.Request) (int, any, error) {
	key, err := idempotencyKey(r)
	if err != nil {
		return 0, nil, err
	}
	var req provider.CreateRefund
	if err := readJSON(r, &req); err != nil {
		return 0, nil, err
	}
	if err := checkMoney(req.AmountCents, req.Currency); err != nil {
		return 0, nil, err
	}
	done, err := s.books.refund(key, r.PathValue("id"), req)
	return http.StatusCreated, done.Refund, err
}

func (s *Sandbox) showBehaviour(*http.Request) (int, any, error) {
	return http.StatusOK, s.books.getBehaviour(), nil
}

func (s *Sandbox) changeBehaviour(r *http.Request) (int, any, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, nil, err
	}
	to, err := ParseBehaviour(body)
	if err != nil {
		return 0, nil, badRequestError{"the behaviour: " + err.Error()}
	}
	return http.StatusOK, to, s.books.setBehaviour(to)
}
