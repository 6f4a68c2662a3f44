package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/payment"
	"seckill/internal/testkit/fail"
)

// fakeEvents returns what a test sets, and keeps what it was given.
type fakeEvents struct {
	err  error
	id   string
	body string
}

func (f *fakeEvents) CheckHeader(header http.Header) error { return payment.CheckHeader(header) }

func (f *fakeEvents) Receive(_ context.Context, header http.Header, body []byte) error {
	f.id, f.body = header.Get(payment.HeaderID), string(body)
	return f.err
}

// signedHeaders look like those of a webhook.
func signedHeaders() []string {
	return []string{"webhook-id: msg_1", "webhook-timestamp: 1893553445", "webhook-signature: v1," + strings.Repeat("A", 43) + "="}
}

func TestPaymentEvents(t *testing.T) {
	const route = "/api/v1/payments/events"
	headers := signedHeaders()
	events := &fakeEvents{}
	r := newFixture(t, func(_ *httpapi.Config, f *fixture) { f.events = events })
	for _, c := range []struct {
		err    error
		status int
		code   string
	}{
		{nil, 204, ""},
		{payment.ErrForged, 401, "unauthenticated"},
		{fmt.Errorf("%w: of yesterday", payment.ErrStale), 401, "unauthenticated"},
		{fmt.Errorf("%w: no type", payment.ErrMalformed), 400, "invalid_request"},
		{order.ErrUnavailable, 503, "unavailable"},
	} {
		events.err = c.err
		const body = `{"type":"payment.paid","data":{}}`
		rec := r.do(t, call{"POST", route, body, headers})
		if rec.Code != c.status || events.id != "msg_1" || events.body != body {
			t.Errorf("%v: %d %s; it was given %q %q", c.err, rec.Code, rec.Body, events.id, events.body)
		}
		if c.code != "" {
			wantProblem(t, rec, c.status, c.code)
		} else if rec.Body.Len() != 0 {
			t.Errorf("204 with the body %s", rec.Body)
		}
	}
	events.body = ""
	wantProblem(t, r.do(t, call{"POST", route, `{"type":"` + strings.Repeat("x", 64<<10) + `"}`, headers}), 413, "payload_too_large")
	wantProblem(t, r.do(t, call{"POST", route, "", headers}), 400, "invalid_request")
	fail.Unequal(t, events.body, "", "it was given")
	// A server without a provider has no such address.
	wantProblem(t, newFixture(t).do(t, call{"POST", route, "{}", headers}), 404, "not_found")
}

// sendEvent sends a webhook whose body is body.
func (r *fixture) sendEvent(from string, body io.Reader, headers ...string) *httptest.ResponseRecorder {
	headers = append([]string{"Remote-Addr: " + from, "Content-Type: application/json"}, headers...)
	return ask(context.Background(), r.handler, "POST", "/api/v1/payments/events", body, headers...)
}

// A webhook without the provider's headers is refused before its body is read.
func TestPaymentEventsWithoutSignatureAreNotRead(t *testing.T) {
	r := newFixture(t, func(_ *httpapi.Config, f *fixture) { f.events = &fakeEvents{} })
	whole := signedHeaders()
	for name, headers := range map[string][]string{ // payment's TestVerify has all
		"no header": nil, "short signature": {whole[0], whole[1], "webhook-signature: v1,AAAA"}, "two signatures": append(whole, whole[2]),
	} {
		body := &countedReader{}
		rec := r.sendEvent("192.0.2.1:1", body, headers...)
		wantProblem(t, rec, 401, "unauthenticated")
		if body.reads > 0 || rec.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d reads of the body, headers %v", name, body.reads, rec.Header())
		}
	}
}

// countedReader is a body that nobody should read.
type countedReader struct{ reads int }

func (c *countedReader) Read([]byte) (int, error) { c.reads++; return 0, io.EOF }

// Clients that send the body of a webhook slowly take nothing from other requests, and one address does not keep the
// provider out.
func TestSlowPaymentEventsTakeNothingFromOthers(t *testing.T) {
	for name, tt := range map[string]struct {
		address  func(i int) string // of the i-th slow client
		slow     int
		provider int // the answer to the provider, at another address
	}{
		"of one address":    {func(int) string { return "192.0.2.1:1" }, 2000, 204},
		"of many addresses": {func(i int) string { return fmt.Sprintf("192.0.2.%d:1", i%200) }, 2000, 503},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, lab, func(cfg *httpapi.Config, f *fixture) {
					cfg.Limits = httpapi.Limits{Requests: 2000, RequestsPerUser: 64, RequestsPerAddress: 512}
					f.events = &fakeEvents{}
				})
				body, end := io.Pipe()
				var slow sync.WaitGroup
				for i := range tt.slow {
					slow.Go(func() { r.sendEvent(tt.address(i), body, signedHeaders()...) })
				}
				synctest.Wait()
				rec := r.sendEvent("198.51.100.1:1", strings.NewReader(`{"type":"payment.paid"}`), signedHeaders()...)
				if refused := tt.provider == 503; rec.Code != tt.provider || refused && rec.Header().Get("Retry-After") != "1" {
					t.Errorf("the provider: %d %s %v, want %d", rec.Code, rec.Body, rec.Header(), tt.provider)
				}
				if rec := r.serve(t.Context(), "GET", "/api/v1/orders", "X-User-ID: 42"); rec.Code != 200 {
					t.Errorf("another request: %d %s", rec.Code, rec.Body)
				}
				_ = end.Close()
				slow.Wait()
				if rec := r.sendEvent("192.0.2.1:1", strings.NewReader(`{"type":"payment.paid"}`), signedHeaders()...); rec.Code != 204 {
					t.Errorf("afterwards: %d %s", rec.Code, rec.Body)
				}
			})
		})
	}
}
