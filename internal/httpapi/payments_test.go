package httpapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"seckill/internal/httpapi"
	"seckill/internal/order"
	"seckill/internal/payment"
)

// fakeEvents returns what a test sets, and keeps what it was given.
type fakeEvents struct {
	err  error
	id   string
	body string
}

func (f *fakeEvents) Receive(_ context.Context, header http.Header, body []byte) error {
	f.id, f.body = header.Get(payment.HeaderID), string(body)
	return f.err
}

func TestPaymentEvents(t *testing.T) {
	const route = "/api/v1/payments/events"
	headers := []string{"webhook-id: msg_1", "webhook-timestamp: 1893553445", "webhook-signature: v1,x"}
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
	if events.body != "" {
		t.Errorf("it was given %q", events.body)
	}
	// A server without a provider has no such address.
	wantProblem(t, newFixture(t).do(t, call{"POST", route, "{}", headers}), 404, "not_found")
}
