package service_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// collected are the spans that the collector received.
type collected struct {
	mu    sync.Mutex
	spans []*otlp.Span
}

// collect starts a collector of OTLP over HTTP.
func collect(t *testing.T) (c *collected, url string) {
	c = &collected{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var got collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &got)); err != nil {
			t.Error(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, resource := range got.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				c.spans = append(c.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(server.Close)
	return c, server.URL
}

// one returns the only span of a name that meets a condition.
func (c *collected) one(t *testing.T, name string, which func(*otlp.Span) bool) *otlp.Span {
	t.Helper()
	var found []*otlp.Span
	for _, s := range c.spans {
		if s.GetName() == name && which(s) {
			found = append(found, s)
		}
	}
	fail.NowUnequal(t, len(found), 1, "%s in %v", name, c.spans)
	return found[0]
}

// within selects the spans with a given parent, linked the spans that a span links to.
func within(parent *otlp.Span) func(*otlp.Span) bool {
	return func(s *otlp.Span) bool {
		return bytes.Equal(s.GetTraceId(), parent.GetTraceId()) && bytes.Equal(s.GetParentSpanId(), parent.GetSpanId())
	}
}

func linked(from *otlp.Span) func(*otlp.Span) bool {
	return func(s *otlp.Span) bool {
		return slices.ContainsFunc(from.GetLinks(), func(l *otlp.Span_Link) bool {
			return bytes.Equal(l.GetTraceId(), s.GetTraceId()) && bytes.Equal(l.GetSpanId(), s.GetSpanId())
		})
	}
}

// The spans at the collector show the way of an order from its request to the database, and back.
func TestTracesOfAnOrder(t *testing.T) {
	t.Parallel()
	c, collector := collect(t)
	r := harness.StartInProcess(t, nil, []string{"OTEL_EXPORTER_OTLP_ENDPOINT" + "=" + collector})
	url, _, _ := strings.Cut(harness.CurlLine.FindStringSubmatch(r.Curl)[3], "/api/")
	sale := harness.OpenSale(t, 3, harness.AdmissionPolicy, harness.Process{URL: url})
	got := sale.BuyUntilAnswered(0, 1, "first")
	fail.NowUnequal(t, got.Code, "accepted")
	sale.AtRest(0)
	fail.If(t, r.End())

	request := c.one(t, "POST /api/v1/vouchers/:id/orders", func(*otlp.Span) bool { return true })
	decision := c.one(t, "admission.decide", within(request))
	call := c.one(t, "admission.call", linked(decision))
	entries := c.one(t, "fulfil.entries", within(call))
	transaction := c.one(t, "fulfil.persist", linked(entries))
	if !linked(transaction)(call) || !linked(call)(decision) {
		t.Errorf("no link leads back from %v by %v to %v", transaction, call, decision)
	}
	id, err := strconv.ParseInt(got.Order, 10, 64)
	fail.NowIf(t, err)
	has := func(s *otlp.Span) bool {
		for _, a := range s.GetAttributes() {
			values := a.GetValue().GetArrayValue().GetValues()
			if a.GetKey() == "seckill.order_id" && a.GetValue().GetIntValue() == id || a.GetKey() == "seckill.order_ids" && values[0].GetIntValue() == id {
				return true
			}
		}
		return false
	}
	if !has(decision) || !has(transaction) {
		t.Errorf("order %d is not in %v and %v", id, decision, transaction)
	}
	if logs := r.Logs.String(); strings.Contains(logs, `"level":"ERROR"`) { // a busy machine may be worth a warning
		t.Errorf("a normal run logged:\n%s", logs)
	}
}
