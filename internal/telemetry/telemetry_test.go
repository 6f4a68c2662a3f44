package telemetry_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"seckill/internal/admission"
	"seckill/internal/admission/contract"
	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// receiver is a collector that takes OTLP over HTTP.
type receiver struct {
	url string

	mu       sync.Mutex
	spans    []*otlp.Span
	services map[string]bool
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{services: map[string]bool{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var got collector.ExportTraceServiceRequest
		if err = errors.Join(err, proto.Unmarshal(body, &got)); err != nil || req.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", req.URL, err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, resource := range got.GetResourceSpans() {
			for _, a := range resource.GetResource().GetAttributes() {
				if a.GetKey() == "service.name" {
					r.services[a.GetValue().GetStringValue()] = true
				}
			}
			for _, scope := range resource.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	t.Cleanup(server.Close)
	r.url = server.URL + telemetry.TracesPath
	return r
}

// start starts tracing. The returned function ends it and returns once the receiver has all spans.
func start(t *testing.T, endpoint string, logs io.Writer) (*telemetry.Tracing, func()) {
	t.Helper()
	tracing, err := telemetry.Start(t.Context(), endpoint, slog.New(slog.NewTextHandler(logs, nil)))
	fail.NowIf(t, err)
	return tracing, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		tracing.Close(ctx)
	}
}

// summary formats a span on one line.
func summary(s *otlp.Span) string {
	line := fmt.Sprintf("%s %s %d", s.GetName(), strings.TrimPrefix(s.GetKind().String(), "SPAN_KIND_"), s.GetStatus().GetCode())
	for _, a := range s.GetAttributes() {
		value := a.GetValue()
		text := value.GetStringValue()
		for _, one := range value.GetArrayValue().GetValues() {
			text += fmt.Sprintf("[%d]", one.GetIntValue())
		}
		if text == "" {
			text = fmt.Sprint(value.GetIntValue())
		}
		line += fmt.Sprintf(" %s=%s", a.GetKey(), text)
	}
	return line
}

// fakeGate decides every order with err.
type fakeGate struct {
	order.Gate
	err error
}

func (g fakeGate) Admit(context.Context, *voucher.Voucher, order.Order) error { return g.err }

// fakeStore is a store whose transactions end with err.
type fakeStore struct {
	contract.AdmissionStore
	err error
}

func (s fakeStore) Persist(context.Context, []contract.Accepted) ([]order.Status, error) {
	return nil, s.err
}

func (s fakeStore) Reject(context.Context, contract.Accepted) (order.Status, error) {
	return order.Rejected, s.err
}

// call observes one call to Redis for a number of orders whose requests have ctx.
func call(ctx context.Context, tracing *telemetry.Tracing, orders int, err error) (traceparent string) {
	traceparent, ended := tracing.Calls(admission.Observer{}).Call(slices.Values(slices.Repeat([]context.Context{ctx}, orders)))
	ended(err)
	return traceparent
}

func TestSpans(t *testing.T) {
	r := newReceiver(t)
	var logs strings.Builder
	tracing, end := start(t, r.url, &logs)

	var decided error
	handler := tracing.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("X-Request-Id", "r1")
		fail.If(t, http.NewResponseController(w).Flush(), "Flush does not reach the connection")
		err := tracing.Gate(fakeGate{err: decided}).Admit(req.Context(), nil, order.Order{ID: 5, VoucherID: 7})
		if !errors.Is(err, decided) {
			t.Errorf("Admit = %v, want %v", err, decided)
		}
	}))
	send := func(method, path string, err error) {
		decided = err
		req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		handler.ServeHTTP(httptest.NewRecorder(), req)
	}
	send(http.MethodPost, "/api/v1/vouchers/7/orders", nil)
	send(http.MethodPost, "/api/v1/vouchers/7/orders", fmt.Errorf("wrapped: %w", voucher.ErrSoldOut))
	send(http.MethodPost, "/api/v1/vouchers/7/orders", order.ErrUnavailable)

	call(t.Context(), tracing, 3, nil)
	call(t.Context(), tracing, 4, errors.New("connection lost"))
	batch := []contract.Accepted{{OrderID: 5}, {OrderID: 6}}
	broken := errors.New("broken")
	for _, err := range []error{nil, broken} {
		store := tracing.AdmissionStore(fakeStore{err: err})
		fail.Unless(t, fail.Of(store.Persist(t.Context(), batch)), err)
		if status, got := store.Reject(t.Context(), batch[1]); !errors.Is(got, err) || status != order.Rejected {
			t.Error(status, got)
		}
	}
	end()

	const request = "POST /api/v1/vouchers/:id/orders SERVER 0 http.request.method=POST http.route=/api/v1/vouchers/:id/orders http.response.status_code=200 seckill.request_id=r1"
	const decision = "admission.decide INTERNAL %d seckill.voucher_id=7 seckill.order_id=5 seckill.outcome=%s"
	want := []string{
		fmt.Sprintf(decision, 0, "accepted"), request, fmt.Sprintf(decision, 0, "sold_out"), request, fmt.Sprintf(decision, 2, "unavailable"), request,
		"admission.call CLIENT 0 db.system.name=redis seckill.orders=3", "admission.call CLIENT 2 db.system.name=redis seckill.orders=4",
		"fulfil.persist CONSUMER 0 seckill.orders=2 seckill.order_ids=[5][6]", "fulfil.reject CONSUMER 0 seckill.order_ids=[6]",
		"fulfil.persist CONSUMER 2 seckill.orders=2 seckill.order_ids=[5][6]", "fulfil.reject CONSUMER 2 seckill.order_ids=[6]",
	}
	if len(r.spans) != len(want) {
		t.Fatalf("%d spans, want %d", len(r.spans), len(want))
	}
	for i, s := range r.spans {
		if got := summary(s); got != want[i] {
			t.Errorf("span %d:\n got %s\nwant %s", i, got, want[i])
		}
	}
	decision0, request0 := r.spans[0], r.spans[1]
	if fmt.Sprintf("%x", request0.GetTraceId()) != "0af7651916cd43dd8448eb211c80319c" || fmt.Sprintf("%x", request0.GetParentSpanId()) != "b7ad6b7169203331" ||
		string(decision0.GetTraceId()) != string(request0.GetTraceId()) || string(decision0.GetParentSpanId()) != string(request0.GetSpanId()) {
		t.Errorf("not in one trace: %v, %v", request0, decision0)
	}
	if !r.services["seckill"] || len(r.services) != 1 || logs.String() != "" {
		t.Errorf("services %v, log %s", r.services, logs.String())
	}
}

func TestRoutes(t *testing.T) {
	for path, want := range map[string]string{
		"/api/v1/vouchers":              "/api/v1/vouchers",
		"/api/v1/vouchers/7":            "/api/v1/vouchers/:id",
		"/api/v1/vouchers/x/orders":     "/api/v1/vouchers/:id/orders", // the API refuses the id
		"/api/v1/orders/8/payment":      "/api/v1/orders/:id/payment",
		"/api/v1/payments/events":       "/api/v1/payments/events",
		"/api/v1/locks/order:1:2/a":     "/api/v1/locks/*key",
		"/api/v1/vouchers/":             "",
		"/api/v1/vouchers/7/payment":    "",
		"/api/v1/orders/8/orders":       "",
		"/api/v1/orders/8/payment/more": "",
		"/api/v1/payments/8":            "",
		"/api/v1/tokens/8":              "",
		"/api/v1/":                      "",
		"/api/v1/nothing":               "",
	} {
		fail.Unequal(t, telemetry.Route(path), want, "%s", path)
	}
}

func TestServerErrors(t *testing.T) {
	r := newReceiver(t)
	tracing, end := start(t, r.url, io.Discard)
	handler := tracing.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	for _, path := range []string{"/livez", "/metrics", "/api/v1/nothing/of/ours", "/api/v1/vouchers/1/more", "/api/v1/orders/12", "/api/v1/locks/order:1:2"} {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "BREW", path, nil))
	}
	end()
	var names []string
	for _, s := range r.spans {
		names = append(names, s.GetName())
		if s.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: %v", s.GetName(), s.GetStatus())
		}
	}
	if got := strings.Join(names, ", "); got != "_OTHER, _OTHER, _OTHER /api/v1/orders/:id, _OTHER /api/v1/locks/*key" {
		t.Errorf("%s", got)
	}
}

// An event of a stream arrives while its handler still runs. The handler flushes as gin's writer does, which the API's
// handlers write to: it asks the writer that it wraps whether it is an [http.Flusher], and does not unwrap it.
func TestStreamsAreFlushed(t *testing.T) {
	r := newReceiver(t)
	tracing, end := start(t, r.url, io.Discard)
	defer end()
	arrived := make(chan struct{})
	server := httptest.NewServer(tracing.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.WriteString(w, "data: 1\n\n")
		if flusher, ok := w.(http.Flusher); ok {
			flusher.Flush()
		}
		select {
		case <-arrived:
		case <-req.Context().Done(): // the client has given up
		}
	})))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/api/v1/vouchers/7/live", nil)
	fail.NowIf(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	fail.NowIf(t, err, "nothing arrives while the handler runs")
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); line != "data: 1\n" {
		t.Errorf("%q arrives while the handler runs: %v", line, err)
	}
	close(arrived)
}

// A flush that fails says so, and one that sends the header settles the status.
func TestFlush(t *testing.T) {
	r := newReceiver(t)
	tracing, end := start(t, r.url, io.Discard)
	broken := errors.New("broken")
	handler := tracing.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := http.NewResponseController(w).Flush(); !errors.Is(err, broken) {
			t.Errorf("Flush = %v, want %v", err, broken)
		}
		w.WriteHeader(http.StatusInternalServerError) // too late
	}))
	handler.ServeHTTP(unflushable{httptest.NewRecorder(), broken}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/vouchers", nil))
	end()
	if len(r.spans) != 1 || !strings.Contains(summary(r.spans[0]), "http.response.status_code=200") {
		t.Errorf("%v", r.spans)
	}
}

// unflushable is a writer whose flush fails with err.
type unflushable struct {
	http.ResponseWriter
	err error
}

func (w unflushable) FlushError() error { return w.err }

// An unreachable collector is logged once, and so is its return.
func TestUnreachableCollector(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "5")
	var status = http.StatusBadRequest // the exporter does not retry this one
	var mu sync.Mutex
	arrived := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		w.WriteHeader(status)
		arrived <- struct{}{}
	}))
	t.Cleanup(server.Close)
	var logs strings.Builder
	tracing, end := start(t, server.URL, &logs)
	for range 2 {
		call(t.Context(), tracing, 1, nil)
		<-arrived
	}
	mu.Lock()
	status = http.StatusOK
	mu.Unlock()
	call(t.Context(), tracing, 1, nil)
	<-arrived
	end()
	if got := logs.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "traces cannot be sent") || !strings.Contains(got, "traces are sent again") {
		t.Errorf("logged:\n%s", got)
	}
}

func TestInvalidEndpoints(t *testing.T) {
	for _, endpoint := range []string{"collector:4318", "ftp://collector", "http://", "http://a b"} {
		if tracing, err := telemetry.Start(t.Context(), endpoint, slog.New(slog.DiscardHandler)); err == nil || tracing != nil {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// Without an endpoint nothing is wrapped, so tracing costs nothing.
func TestWithoutAnEndpoint(t *testing.T) {
	tracing, end := start(t, "", io.Discard)
	defer end()
	if tracing != nil {
		t.Fatal("tracing without an endpoint")
	}
	gate, store, handler := &fakeGate{}, &fakeStore{}, http.NewServeMux()
	if tracing.Gate(gate) != order.Gate(gate) || tracing.AdmissionStore(store) != contract.AdmissionStore(store) ||
		tracing.Handler(handler) != http.Handler(handler) {
		t.Error("something was wrapped")
	}
	if tracing.Calls(admission.Observer{}).Call != nil {
		t.Error("calls are observed")
	}
}
