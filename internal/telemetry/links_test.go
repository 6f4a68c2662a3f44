package telemetry_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/voucher"
)

// gateFunc is a gate that calls decide with the context of each decision.
type gateFunc struct {
	order.Gate
	decide func(context.Context)
}

func (g gateFunc) Admit(ctx context.Context, _ *voucher.Voucher, _ order.Order) error {
	g.decide(ctx)
	return nil
}

// request sends an order with a traceparent, and calls decide with the context of its decision.
func request(t *testing.T, tracing *telemetry.Tracing, traceparent string, decide func(context.Context)) {
	handler := tracing.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_ = tracing.Gate(gateFunc{decide: decide}).Admit(req.Context(), nil, order.Order{})
	}))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/vouchers/7/orders", nil)
	req.Header.Set("Traceparent", traceparent)
	handler.ServeHTTP(httptest.NewRecorder(), req)
}

func persist(t *testing.T, tracing *telemetry.Tracing, traces ...string) {
	batch := make([]contract.Accepted, len(traces))
	for i, trace := range traces {
		batch[i] = contract.Accepted{OrderID: int64(i + 1), Trace: trace}
	}
	if _, err := tracing.AdmissionStore(fakeStore{}).Persist(t.Context(), batch); err != nil {
		t.Error(err)
	}
}

// spansNamed returns the spans with a name, in the order in which they ended.
func (r *receiver) spansNamed(name string) []*otlp.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	var spans []*otlp.Span
	for _, s := range r.spans {
		if s.GetName() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// id identifies a span in the same format as links does.
func id(s *otlp.Span) string { return fmt.Sprintf("%x/%x", s.GetTraceId(), s.GetSpanId()) }

func links(s *otlp.Span) string {
	var ids []string
	for _, l := range s.GetLinks() {
		ids = append(ids, fmt.Sprintf("%x/%x", l.GetTraceId(), l.GetSpanId()))
	}
	return strings.Join(ids, " ")
}

const (
	sampled   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampled = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// Links lead from a request to its transaction, and from the transaction to its requests.
func TestLinks(t *testing.T) {
	r := newReceiver(t)
	tracing, end := start(t, r.url, io.Discard)
	var first, second string
	request(t, tracing, sampled, func(one context.Context) {
		request(t, tracing, strings.Replace(sampled, "0a", "0b", 1), func(other context.Context) {
			_, fail := tracing.Calls(admission.Observer{}).Call(func(yield func(context.Context) bool) { _ = yield(one) && yield(other) })
			fail(order.ErrUnavailable)
			first = call(one, tracing, 1, nil)
		})
	})
	request(t, tracing, sampled, func(ctx context.Context) { second = call(ctx, tracing, 1, nil) })
	persist(t, tracing, first, "", first, second, "no traceparent")
	end()

	decisions, calls := r.spansNamed("admission.decide"), r.spansNamed("admission.call")
	transactions, entries := r.spansNamed("fulfil.persist"), r.spansNamed("fulfil.entries")
	if len(decisions) != 3 || len(calls) != 3 || len(transactions) != 1 || len(entries) != 2 {
		t.Fatalf("%v", r.spans)
	}
	for _, link := range []struct {
		what string
		from *otlp.Span
		want string
	}{
		{"the call with two decisions", calls[0], id(decisions[1]) + " " + id(decisions[0])},
		{"the next call", calls[1], id(decisions[1])},
		{"the decision in both calls", decisions[1], id(calls[0]) + " " + id(calls[1])},
		{"the decision in the first call", decisions[0], id(calls[0])},
		{"the last decision", decisions[2], id(calls[2])},
		{"the transaction", transactions[0], id(calls[1]) + " " + id(calls[2])},
		{"its entries of the second call", entries[0], id(transactions[0])},
		{"its entries of the third call", entries[1], id(transactions[0])},
	} {
		if got := links(link.from); got != link.want {
			t.Errorf("%s has links to\n%s, want\n%s", link.what, got, link.want)
		}
	}
	for i, s := range entries {
		if string(s.GetTraceId()) != string(calls[i+1].GetTraceId()) || string(s.GetParentSpanId()) != string(calls[i+1].GetSpanId()) {
			t.Errorf("%v is not a child of %v", s, calls[i+1])
		}
		if got, want := summary(s), fmt.Sprintf("fulfil.entries CONSUMER 0 seckill.orders=%d", 2-i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// A call links to its first 128 decisions only, and a transaction to its first 128 calls.
func TestLinksAreBounded(t *testing.T) {
	const many = 200
	r := newReceiver(t)
	tracing, end := start(t, r.url, io.Discard)
	traces := make([]string, many)
	request(t, tracing, sampled, func(ctx context.Context) {
		call(ctx, tracing, many, nil)
		for i := range traces {
			traces[i] = call(ctx, tracing, 1, nil)
		}
	})
	persist(t, tracing, append(traces, traces...)...)
	end()
	for _, s := range []*otlp.Span{r.spansNamed("admission.call")[0], r.spansNamed("fulfil.persist")[0]} {
		if got := len(s.GetLinks()); got != 128 || s.GetDroppedLinksCount() != 0 {
			t.Errorf("%s has %d links and %d dropped ones", s.GetName(), got, s.GetDroppedLinksCount())
		}
	}
	if got := len(r.spansNamed("fulfil.entries")); got != 128 {
		t.Errorf("%d spans fulfil.entries, want 128", got)
	}
}

// If only some requests are sampled, exactly the spans that serve these are.
func TestSamplingFollowsTheRequests(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	r := newReceiver(t)
	tracing, end := start(t, r.url, io.Discard)
	var with, without string // the traceparents of the calls
	request(t, tracing, unsampled, func(ctx context.Context) { without = call(ctx, tracing, 1, nil) })
	request(t, tracing, sampled, func(ctx context.Context) { with = call(ctx, tracing, 1, nil) })
	persist(t, tracing, without)
	persist(t, tracing, without, with)
	end()
	if without != "" {
		t.Errorf("an unsampled call has the traceparent %s", without)
	}
	var names []string
	for _, s := range r.spans {
		names = append(names, s.GetName())
	}
	if got := strings.Join(names, ", "); got != "admission.call, admission.decide, POST /api/v1/vouchers/:id/orders, fulfil.entries, fulfil.persist" {
		t.Errorf("sampled spans: %s", got)
	}
}
