package main

import (
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
)

// The way of an order, from its request into the database, is to be found in what a
// collector is sent.
func TestTracesOfAnOrder(t *testing.T) {
	var mu sync.Mutex
	spans := map[string][]*otlp.Span{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var got collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &got)); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, resource := range got.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				for _, s := range scope.GetSpans() {
					spans[s.GetName()] = append(spans[s.GetName()], s)
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	r := start(t, nil, []string{tracesEndpoint + "=" + server.URL})
	url, _, _ := strings.Cut(curlLine.FindStringSubmatch(r.curl)[3], "/api/")
	shop := openShop(t, 3, admissionPolicy, process{url: url})
	got := shop.buy(0, 1, "")
	if got.code != "accepted" {
		t.Fatalf("told %+v", got)
	}
	shop.atRest(0)
	if err := r.end(); err != nil {
		t.Error(err)
	}

	request, decision := spans["POST /api/v1/vouchers/:id/orders"], spans["admission.decide"]
	if len(request) != 1 || len(decision) != 1 {
		t.Fatalf("%v", spans)
	}
	if string(decision[0].GetTraceId()) != string(request[0].GetTraceId()) || string(decision[0].GetParentSpanId()) != string(request[0].GetSpanId()) {
		t.Errorf("not one trace: %v, %v", request, decision)
	}
	id, err := strconv.ParseInt(got.order, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	has := func(s *otlp.Span) bool {
		for _, a := range s.GetAttributes() {
			values := a.GetValue().GetArrayValue().GetValues()
			if a.GetKey() == "seckill.order_id" && a.GetValue().GetIntValue() == id || a.GetKey() == "seckill.order_ids" && values[0].GetIntValue() == id {
				return true
			}
		}
		return false
	}
	if !has(decision[0]) || !slices.ContainsFunc(spans["fulfil.persist"], has) || len(spans["admission.call"]) == 0 {
		t.Errorf("order %d is not in %v", id, spans)
	}
	if logs := r.logs.String(); logs != "" {
		t.Errorf("a quiet run logged:\n%s", logs)
	}
}

func TestTracesEndpointThatIsNone(t *testing.T) {
	cfg, err := parseConfig([]string{"-addr", "127.0.0.1:0"}, []string{tracesEndpoint + "=collector:4318"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.HasPrefix(err.Error(), tracesEndpoint+": ") {
		t.Errorf("err = %v", err)
	}
}
