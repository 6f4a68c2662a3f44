package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/telemetry"
	"seckill/internal/testkit"
	"seckill/internal/voucher"
)

// event is a server-sent event.
type event struct{ id, name, data string }

// watched is an open stream.
type watched struct {
	t      *testing.T
	status int
	lines  *bufio.Reader
	stop   func()
}

// watch opens a stream of live figures on a real connection.
func watch(t *testing.T, url string, id int64, headers ...string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/api/v1/vouchers/%d/live", url, id), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	stop := func() { cancel(); _ = resp.Body.Close() }
	t.Cleanup(stop)
	return &watched{t, resp.StatusCode, bufio.NewReader(resp.Body), stop}
}

// next waits for an event. ok is false at the end of the stream.
func (w *watched) next() (e event, ok bool) {
	w.t.Helper()
	for {
		line, err := w.lines.ReadString('\n')
		if err != nil {
			return event{}, false
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data = value
		case "":
			return e, true
		}
	}
}

type figures struct {
	Audit     *struct{ Oversold, Orders int64 }
	Outcomes  map[string]int64
	Handovers *struct {
		Mechanism, Passing string
		FoundFree          int64 `json:"found_free"`
		InProcess          int64 `json:"in_process"`
		ByStore            int64 `json:"by_store"`
	}
}

func (w *watched) figures() (f figures, id string) {
	w.t.Helper()
	e, ok := w.next()
	if !ok || e.name != "" {
		w.t.Fatalf("event %+v, open: %v", e, ok)
	}
	if err := json.Unmarshal([]byte(e.data), &f); err != nil {
		w.t.Fatalf("%v: %s", err, e.data)
	}
	return f, e.id
}

// onSale is a fixture with one voucher.
func onSale(t *testing.T, options ...option) (r *fixture, id int64) {
	t.Helper()
	r = newFixture(t, append(options, lab)...)
	p := voucher.DefaultPolicy()
	p.Scope = voucher.ScopeVoucher
	v, err := r.vouchers.Create(t.Context(), voucher.Voucher{
		Title: "t", InitialStock: 2, BeginAt: start().Add(-time.Hour), EndAt: start().Add(time.Hour), Policy: p,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.orders.audited = v.ID
	return r, v.ID
}

// served is a fixture on a real listener, with one voucher.
func served(t *testing.T, options ...option) (r *fixture, url string, id int64) {
	t.Helper()
	r, id = onSale(t, options...)
	server := httptest.NewServer(r.handler)
	t.Cleanup(server.Close)
	t.Cleanup(r.api.EndWaits) // before the server is closed: it waits for its streams
	return r, server.URL, id
}

func TestLiveFigures(t *testing.T) {
	r, url, id := served(t)
	r.orders.audit = order.Audit{InitialStock: 2, Stock: 0, Orders: 5, DistinctUsers: 5}
	w := watch(t, url, id)
	f, first := w.figures()
	if f.Audit == nil || f.Audit.Oversold != 3 || len(f.Outcomes) != 0 {
		t.Errorf("%+v %s", f, first)
	}
	place := fmt.Sprintf("/api/v1/vouchers/%d/orders", id)
	for user := range 3 {
		r.do(t, call{"POST", place, "", []string{fmt.Sprint("X-User-ID: ", user+1)}})
	}
	r.orders.place = func(context.Context, order.Request) (order.Order, error) { return order.Order{}, voucher.ErrSoldOut }
	r.do(t, call{"POST", place, "", []string{"X-User-ID: 9"}})
	testkit.Until(t, "the answers are counted", func() bool {
		f, _ = w.figures()
		return f.Outcomes["confirmed"] == 3 && f.Outcomes["sold_out"] == 1
	})

	// A listener that reconnects while another one watches gets the events that it missed.
	again := watch(t, url, id, "Last-Event-ID: "+first)
	if _, next := again.figures(); next != strings.TrimSuffix(first, "1")+"2" {
		t.Errorf("after %s comes %s", first, next)
	}
	// Another watch, of another process for instance, is not known.
	other := watch(t, url, id, "Last-Event-ID: OTHER-7")
	if e, _ := other.next(); e.name != "gap" {
		t.Errorf("the first event is %+v", e)
	}
	testkit.Until(t, "the figures are complete after the gap", func() bool {
		f, _ := other.figures()
		return f.Outcomes["confirmed"] == 3
	})
	for _, w := range []*watched{w, again, other} {
		w.stop()
	}
}

// alone opens a stream that is the only one, for a while, and returns its events.
func (r *fixture) alone(t *testing.T, id int64, last string, while time.Duration) (events []event) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("/api/v1/vouchers/%d/live", id), nil)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	rec := httptest.NewRecorder()
	time.AfterFunc(while, leave)
	r.handler.ServeHTTP(rec, req)
	w := &watched{t, rec.Code, bufio.NewReader(rec.Body), leave}
	for {
		e, ok := w.next()
		if !ok {
			return events
		}
		events = append(events, e)
	}
}

// A client whose stream was ended or cut off goes on where it was, also if nobody else has watched. Later its events
// are gone, and it is told.
func TestLiveFiguresWaitForTheirOnlyWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, id := onSale(t)
		place := call{"POST", fmt.Sprintf("/api/v1/vouchers/%d/orders", id), "", []string{"X-User-ID: 1"}}
		first := r.alone(t, id, "", time.Second/2)
		r.do(t, place)
		time.Sleep(httpapi.KeepSale - time.Second)
		second := r.alone(t, id, first[0].id, time.Second/2)
		if len(first) != 1 || len(second) != 1 || second[0].name != "" || second[0].id != strings.TrimSuffix(first[0].id, "1")+"2" ||
			!strings.Contains(second[0].data, `"confirmed":1`) {
			t.Errorf("after %+v comes %+v", first, second)
		}
		time.Sleep(httpapi.KeepSale - time.Second) // counted from the second time
		if n := r.api.Sales(); n != 1 {
			t.Errorf("%d sales are known, want 1", n)
		}
		time.Sleep(2 * time.Second)
		if n := r.api.Sales(); n != 0 {
			t.Errorf("%d sales are known when nobody has watched for long", n)
		}
		r.do(t, place)
		third := r.alone(t, id, second[0].id, time.Second/2)
		if len(third) != 2 || third[0].name != "gap" || !strings.Contains(third[1].data, `"outcomes":{}`) {
			t.Errorf("after the gap: %+v", third)
		}
	})
}

// The sales that nobody watches are few, and none is known after the stop of the service.
func TestLiveFiguresThatNobodyWatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, id := onSale(t)
		for range httpapi.MaxKept {
			v, err := r.vouchers.Create(t.Context(), voucher.Voucher{
				Title: "u", InitialStock: 2, BeginAt: start().Add(-time.Hour), EndAt: start().Add(time.Hour), Policy: voucher.DefaultPolicy(),
			})
			if err != nil {
				t.Fatal(err)
			}
			r.alone(t, v.ID, "", time.Millisecond)
		}
		if n := r.api.Sales(); n != httpapi.MaxKept {
			t.Errorf("%d sales are known, want %d", n, httpapi.MaxKept)
		}
		events := r.alone(t, id, "", time.Millisecond)
		if again := r.alone(t, id, events[0].id, time.Millisecond); len(again) == 0 || again[0].name != "gap" || r.api.Sales() != httpapi.MaxKept {
			t.Errorf("one more is kept: %+v, %d sales", again, r.api.Sales())
		}
		r.api.EndWaits()
		if n := r.api.Sales(); n != 0 {
			t.Errorf("%d sales are known after the stop", n)
		}
		r.alone(t, id, "", time.Millisecond)
		if n := r.api.Sales(); n != 0 {
			t.Errorf("%d sales are kept after the stop", n)
		}
	})
}

// A stop of the service ends the streams, and their number is bounded.
func TestLiveFiguresEnd(t *testing.T) {
	r, url, id := served(t)
	w := watch(t, url, id)
	w.figures()
	free := r.api.FillStreams()
	refused := watch(t, url, id)
	if refused.status != http.StatusServiceUnavailable {
		t.Errorf("one stream too many: %d", refused.status)
	}
	free()
	r.api.EndWaits()
	for {
		if _, ok := w.next(); !ok {
			break
		}
	}
	testkit.Until(t, "the stream is over", func() bool { return r.api.Streams() == 0 })
}

// With tracing on the figures arrive while the stream is open, too.
func TestLiveFiguresAreTraced(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	tracing, err := telemetry.Start(t.Context(), collector.URL, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracing.Close(context.WithoutCancel(t.Context())) })
	r, id := onSale(t)
	server := httptest.NewServer(tracing.Handler(r.handler))
	t.Cleanup(server.Close)
	t.Cleanup(r.api.EndWaits)
	defer time.AfterFunc(5*time.Second, r.api.EndWaits).Stop() // what was kept back arrives at the end of the stream
	if watch(t, server.URL, id).figures(); r.api.Streams() != 1 {
		t.Error("the first figures arrived when the stream was over")
	}
}

// A store that does not answer is said, and the stream goes on.
func TestLiveFiguresWithoutStores(t *testing.T) {
	r, url, id := served(t)
	r.orders.err = order.ErrUnavailable
	if f, _ := watch(t, url, id).figures(); f.Audit != nil {
		t.Errorf("%+v", f.Audit)
	}
}

// All watchers share a look. It does not end when the watcher that asked for it leaves.
func TestLiveFiguresOutliveTheOneWhoAsked(t *testing.T) {
	r, id := onSale(t)
	asked, left := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.orders.look = func(ctx context.Context) (err error) {
		once.Do(func() {
			close(asked)
			<-left
			err = ctx.Err()
		})
		return err
	}
	serve := func(ctx context.Context) (rec *httptest.ResponseRecorder, ended chan struct{}) {
		rec, ended = httptest.NewRecorder(), make(chan struct{})
		req := httptest.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("/api/v1/vouchers/%d/live", id), nil)
		go func() {
			defer close(ended)
			r.handler.ServeHTTP(rec, req)
		}()
		return rec, ended
	}
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	_, first := serve(ctx)
	<-asked
	rec, second := serve(t.Context())
	testkit.Until(t, "two watch", func() bool { return r.api.Watchers(id) == 2 })
	leave()
	close(left)
	<-first
	r.api.EndWaits()
	<-second
	if got := rec.Body.String(); !strings.Contains(got, `"audit":{`) || strings.Contains(got, `"audit":null`) {
		t.Errorf("the look was given up: %s", got)
	}
}

// A look does not outlive the service: a stop does not wait for a store that hangs.
func TestLiveFiguresAreGivenUpAtTheStop(t *testing.T) {
	r, url, id := served(t)
	asked, gaveUp := make(chan struct{}), make(chan error, 1)
	r.orders.look = func(ctx context.Context) error {
		close(asked)
		<-ctx.Done()
		gaveUp <- ctx.Err()
		return ctx.Err()
	}
	go func() {
		<-asked
		r.api.EndWaits()
	}()
	w := watch(t, url, id)
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("the look ended with %v", err)
	}
	for {
		if _, ok := w.next(); !ok {
			break
		}
	}
}

func TestLiveFiguresAreTheAdministrators(t *testing.T) {
	r := newFixture(t)
	wantProblem(t, r.do(t, call{"GET", "/api/v1/vouchers/7/live", "", nil}), http.StatusUnauthorized, "unauthenticated")
	wantProblem(t, r.do(t, call{"GET", "/api/v1/vouchers/7/live", "", []string{"Authorization: " + r.bearer(t, 42)}}), http.StatusForbidden, "forbidden")
	wantProblem(t, r.do(t, call{"GET", "/api/v1/vouchers/7/live", "", []string{"Authorization: Bearer " + adminToken}}), http.StatusNotFound, "voucher_not_found")
}

// The handovers of the lock on the voucher are counted while somebody watches, and no others.
func TestLiveFiguresOfHandovers(t *testing.T) {
	handovers := &lock.Handovers{}
	r, url, id := served(t, func(_ *httpapi.Config, r *fixture) { r.handovers = handovers })
	grant := func(key string, how lock.Handover) {
		handovers.Of("reentrant")(lock.NewHeld(t.Context(), lock.Grant{Key: key, Handover: how}))
	}
	v, err := r.vouchers.Voucher(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	grant(v.StockKey(), lock.PassedInProcess)
	w := watch(t, url, id)
	if f, _ := w.figures(); f.Handovers == nil || f.Handovers.Passing != "told" || f.Handovers.InProcess != 0 {
		t.Errorf("at first: %+v", f.Handovers)
	}
	for _, how := range []lock.Handover{lock.FoundFree, lock.PassedInProcess, lock.PassedInProcess, lock.PassedByStore} {
		grant(v.StockKey(), how)
	}
	grant("order:1:2", lock.PassedByStore)
	testkit.Until(t, "the leases are counted", func() bool {
		f, _ := w.figures()
		h := f.Handovers
		return h.Mechanism == "reentrant" && h.FoundFree == 1 && h.InProcess == 2 && h.ByStore == 1
	})
}

// Where each buyer has a lock of their own, nothing is handed over from buyer to buyer.
func TestNoHandoversBetweenLocksOfUsers(t *testing.T) {
	r, url, _ := served(t, func(_ *httpapi.Config, r *fixture) { r.handovers = &lock.Handovers{} })
	v, err := r.vouchers.Create(t.Context(), voucher.Voucher{
		Title: "u", InitialStock: 2, BeginAt: start().Add(-time.Hour), EndAt: start().Add(time.Hour), Policy: voucher.DefaultPolicy(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if f, _ := watch(t, url, v.ID).figures(); f.Handovers != nil {
		t.Errorf("%+v", f.Handovers)
	}
}
