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
	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/voucher"
)

// calls is a gate that hands on the context of each decision.
type calls struct {
	order.Gate
	decide func(context.Context)
}

func (c calls) Admit(ctx context.Context, _ *voucher.Voucher, _ order.Order) error {
	c.decide(ctx)
	return nil
}

// request asks for an order under a traceparent, and hands on the context of its decision.
func request(t *testing.T, tracing *telemetry.Tracing, traceparent string, decide func(context.Context)) {
	handler := tracing.Handler(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_ = tracing.Gate(calls{decide: decide}).Admit(req.Context(), nil, order.Order{})
	}))
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/vouchers/7/orders", nil)
	req.Header.Set("Traceparent", traceparent)
	handler.ServeHTTP(httptest.NewRecorder(), req)
}

func persist(t *testing.T, tracing *telemetry.Tracing, traces ...string) {
	batch := make([]order.Accepted, len(traces))
	for i, trace := range traces {
		batch[i] = order.Accepted{OrderID: int64(i + 1), Trace: trace}
	}
	if _, err := tracing.Shelf(persists{}).Persist(t.Context(), batch); err != nil {
		t.Error(err)
	}
}

// named are the spans of a name, in the order in which they ended.
func (r *receiver) named(name string) []*otlp.Span {
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

// id is a span as links have it.
func id(s *otlp.Span) string { return fmt.Sprintf("%x/%x", s.GetTraceId(), s.GetSpanId()) }

func links(s *otlp.Span) string {
	var ids []string
	for _, l := range s.GetLinks() {
		ids = append(ids, fmt.Sprintf("%x/%x", l.GetTraceId(), l.GetSpanId()))
	}
	return strings.Join(ids, " ")
}

const (
	kept   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unkept = "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// From a request its transaction is found, and from the transaction the requests.
func TestLinks(t *testing.T) {
	r := newReceiver(t)
	tracing, end := begin(t, r.url, io.Discard)
	var first, second string
	request(t, tracing, kept, func(one context.Context) {
		request(t, tracing, strings.Replace(kept, "0a", "0b", 1), func(other context.Context) {
			_, cut := tracing.Calls(admission.Observer{}).Call(func(yield func(context.Context) bool) { _ = yield(one) && yield(other) })
			cut(order.ErrUnavailable)
			first = called(one, tracing, 1, nil)
		})
	})
	request(t, tracing, kept, func(ctx context.Context) { second = called(ctx, tracing, 1, nil) })
	persist(t, tracing, first, "", first, second, "no traceparent")
	end()

	decisions, calls := r.named("admission.decide"), r.named("admission.call")
	transactions, entries := r.named("fulfil.persist"), r.named("fulfil.entries")
	if len(decisions) != 3 || len(calls) != 3 || len(transactions) != 1 || len(entries) != 2 {
		t.Fatalf("%v", r.spans)
	}
	for _, link := range []struct {
		what string
		from *otlp.Span
		want string
	}{
		{"a call of two", calls[0], id(decisions[1]) + " " + id(decisions[0])},
		{"the call after it", calls[1], id(decisions[1])},
		{"who was in both", decisions[1], id(calls[0]) + " " + id(calls[1])},
		{"who was in the first", decisions[0], id(calls[0])},
		{"who came later", decisions[2], id(calls[2])},
		{"the transaction", transactions[0], id(calls[1]) + " " + id(calls[2])},
		{"what it had of the first", entries[0], id(transactions[0])},
		{"and of the second", entries[1], id(transactions[0])},
	} {
		if got := links(link.from); got != link.want {
			t.Errorf("%s is linked with\n%s, want\n%s", link.what, got, link.want)
		}
	}
	for i, s := range entries {
		if string(s.GetTraceId()) != string(calls[i+1].GetTraceId()) || string(s.GetParentSpanId()) != string(calls[i+1].GetSpanId()) {
			t.Errorf("%v is not part of %v", s, calls[i+1])
		}
		if got, want := told(s), fmt.Sprintf("fulfil.entries CONSUMER 0 seckill.orders=%d", 2-i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Of the buyers of a large call, and of the calls of a large batch, the first are linked.
func TestLinksAreBounded(t *testing.T) {
	const many = 200
	r := newReceiver(t)
	tracing, end := begin(t, r.url, io.Discard)
	traces := make([]string, many)
	request(t, tracing, kept, func(ctx context.Context) {
		called(ctx, tracing, many, nil)
		for i := range traces {
			traces[i] = called(ctx, tracing, 1, nil)
		}
	})
	persist(t, tracing, append(traces, traces...)...)
	end()
	for _, s := range []*otlp.Span{r.named("admission.call")[0], r.named("fulfil.persist")[0]} {
		if got := len(s.GetLinks()); got != 128 || s.GetDroppedLinksCount() != 0 {
			t.Errorf("%s has %d links, and %d that were dropped", s.GetName(), got, s.GetDroppedLinksCount())
		}
	}
	if got := len(r.named("fulfil.entries")); got != 128 {
		t.Errorf("%d parts", got)
	}
}

// Where some of the requests are kept, all of their way is, and no other's.
func TestKeptInPart(t *testing.T) {
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	r := newReceiver(t)
	tracing, end := begin(t, r.url, io.Discard)
	var followed, unseen string
	request(t, tracing, unkept, func(ctx context.Context) { unseen = called(ctx, tracing, 1, nil) })
	request(t, tracing, kept, func(ctx context.Context) { followed = called(ctx, tracing, 1, nil) })
	persist(t, tracing, unseen)
	persist(t, tracing, unseen, followed)
	end()
	if unseen != "" {
		t.Errorf("%s stands for nothing that is kept", unseen)
	}
	var names []string
	for _, s := range r.spans {
		names = append(names, s.GetName())
	}
	if got := strings.Join(names, ", "); got != "admission.call, admission.decide, POST /api/v1/vouchers/:id/orders, fulfil.entries, fulfil.persist" {
		t.Errorf("kept are %s", got)
	}
}
