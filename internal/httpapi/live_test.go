package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/httpapi"
	"seckill/internal/httpserver/servertest"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/telemetry"
	"seckill/internal/testkit/fail"
	"seckill/internal/voucher"
)

// event is a server-sent event.
type event struct{ id, name, data string }

// watched is an open stream.
type watched struct {
	t      *testing.T
	status int
	lines  *bufio.Reader
}

// watch opens a stream of live figures.
func watch(t *testing.T, s *servertest.Server, id int64, headers ...string) *watched {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req := newRequest(ctx, "GET", fmt.Sprintf("http://localhost/api/v1/vouchers/%d/live", id), nil, headers...)
	req.RequestURI = "" // a client's request has none
	client := &http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	fail.NowIf(t, err)
	t.Cleanup(func() { cancel(); _ = resp.Body.Close() })
	return &watched{t, resp.StatusCode, bufio.NewReader(resp.Body)}
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
	Audit    *struct{ Oversold, Orders int64 }
	Outcomes map[string]int64
	Latency  *struct {
		P50 float64 `json:"p50_ms"`
		P95 float64 `json:"p95_ms"`
		P99 float64 `json:"p99_ms"`
	}
	Rushes    int64
	Paused    bool
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
	fail.NowIf(w.t, json.Unmarshal([]byte(e.data), &f), "%s", e.data)
	return f, e.id
}

// onSale is a fixture with one voucher, all of whose buyers want one lock.
func onSale(t *testing.T, options ...option) (r *fixture, id int64) {
	t.Helper()
	r = newFixture(t, append(options, lab)...)
	r.orders.audited = r.sell(t, voucher.ScopeVoucher)
	return r, r.orders.audited
}

// sell creates a voucher that is on sale.
func (r *fixture) sell(t *testing.T, scope voucher.Scope) (id int64) {
	t.Helper()
	p := voucher.DefaultPolicy()
	p.Scope = scope
	v, err := r.vouchers.Create(t.Context(), voucher.Voucher{
		Title: "t", InitialStock: 2, BeginAt: start().Add(-time.Hour), EndAt: start().Add(time.Hour), Policy: p,
	})
	fail.NowIf(t, err)
	return v.ID
}

// served runs a test in a bubble of time, with a voucher on sale behind a server.
func served(t *testing.T, test func(t *testing.T, r *fixture, s *servertest.Server, id int64), options ...option) {
	synctest.Test(t, func(t *testing.T) {
		r, id := onSale(t, options...)
		s := r.listen(t)
		t.Cleanup(r.api.EndWaits) // before the server is stopped: it waits for its streams
		test(t, r, s, id)
	})
}

func TestLiveFigures(t *testing.T) {
	served(t, func(t *testing.T, r *fixture, s *servertest.Server, id int64) {
		r.orders.audit = order.Audit{InitialStock: 2, Stock: 0, Orders: 5, DistinctUsers: 5}
		w := watch(t, s, id)
		f, first := w.figures()
		if f.Audit == nil || f.Audit.Oversold != 3 || len(f.Outcomes) != 0 {
			t.Errorf("%+v %s", f, first)
		}
		place := fmt.Sprintf("/api/v1/vouchers/%d/orders", id)
		for user := range 3 {
			r.do(t, call{"POST", place, "", []string{fmt.Sprint("X-User-ID: ", user+1)}})
		}
		r.orders.place = failing(voucher.ErrSoldOut)
		r.do(t, call{"POST", place, "", []string{"X-User-ID: 9"}})
		began := time.Now()
		if f, _ = w.figures(); f.Outcomes["confirmed"] != 3 || f.Outcomes["sold_out"] != 1 || time.Since(began) != time.Second {
			t.Errorf("after %v: %+v", time.Since(began), f)
		}
		// A listener that reconnects while another one watches gets the events that it missed.
		if _, next := watch(t, s, id, "Last-Event-ID: "+first).figures(); next != strings.TrimSuffix(first, "1")+"2" {
			t.Errorf("after %s comes %s", first, next)
		}
		// Another watch, of another process for instance, is not known.
		other := watch(t, s, id, "Last-Event-ID: OTHER-7")
		if e, _ := other.next(); e.name != "gap" {
			t.Errorf("the first event is %+v", e)
		}
		for range 2 { // all that is kept
			f, _ = other.figures()
		}
		fail.Unequal(t, f.Outcomes["confirmed"], 3, "after the gap: %+v", f)
	})
}

// The figures say how long the answers since the last look took, which rushes began, and whether the sale is paused.
func TestLiveFiguresOfARush(t *testing.T) {
	served(t, func(t *testing.T, r *fixture, s *servertest.Server, id int64) {
		r.vouchers.Store = &changing{voucherStore: r.vouchers.store}
		w := watch(t, s, id)
		if f, _ := w.figures(); f.Latency != nil || f.Rushes != 0 || f.Paused {
			t.Errorf("before: %+v", f)
		}
		var asked atomic.Int64
		r.orders.place = func(_ context.Context, req order.Request) (order.Order, error) {
			if asked.Add(1)%10 == 0 {
				simulate.Sleep(400 * time.Millisecond)
			}
			return order.Order{ID: 7, VoucherID: req.VoucherID, UserID: req.UserID, Status: order.Confirmed}, nil
		}
		r.do(t, call{"POST", fmt.Sprintf("/api/v1/vouchers/%d/rush", id), `{"buyers":100}`, nil})
		fail.Unequal(t, r.do(t, call{"GET", fmt.Sprintf("/api/v1/vouchers/%d/orders", id), "", nil}).Code, http.StatusOK, "the list of orders")
		r.do(t, call{"PATCH", fmt.Sprintf("/api/v1/vouchers/%d", id), `{"paused":true}`, []string{"If-Match: *", "Content-Type: application/json"}})
		f, _ := w.figures()
		// A bucket of the histogram is one part in a hundred wide.
		if f.Outcomes["confirmed"] != 100 || f.Rushes != 1 || !f.Paused || f.Latency == nil || f.Latency.P50 > 1 ||
			f.Latency.P95 < 396 || f.Latency.P99 > 404 {
			t.Errorf("after a rush and a pause: %+v %+v", f, f.Latency)
		}
		if f, _ = w.figures(); f.Latency != nil || f.Rushes != 1 || len(f.Outcomes) != 1 {
			t.Errorf("a second later: %+v", f)
		}
	})
}

// alone opens a stream that is the only one, for a while, and returns its events.
func (r *fixture) alone(t *testing.T, id int64, last string, while time.Duration) (events []event) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	time.AfterFunc(while, leave)
	rec := r.serve(ctx, "GET", fmt.Sprintf("/api/v1/vouchers/%d/live", id), "Last-Event-ID: "+last)
	w := &watched{t, rec.Code, bufio.NewReader(rec.Body)}
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
		simulate.Sleep(httpapi.KeepSale - time.Second)
		second := r.alone(t, id, first[0].id, time.Second/2)
		if len(first) != 1 || len(second) != 1 || second[0].name != "" || second[0].id != strings.TrimSuffix(first[0].id, "1")+"2" ||
			!strings.Contains(second[0].data, `"confirmed":1`) {
			t.Errorf("after %+v comes %+v", first, second)
		}
		simulate.Sleep(httpapi.KeepSale - time.Second) // counted from the second time
		fail.Unequal(t, r.api.Sales(), 1, "sales are known")
		simulate.Sleep(2 * time.Second)
		fail.Unequal(t, r.api.Sales(), 0, "sales are known when nobody has watched for long")
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
			r.alone(t, r.sell(t, voucher.ScopeUser), "", time.Millisecond)
		}
		fail.Unequal(t, r.api.Sales(), httpapi.MaxKept, "sales are known")
		events := r.alone(t, id, "", time.Millisecond)
		if again := r.alone(t, id, events[0].id, time.Millisecond); len(again) == 0 || again[0].name != "gap" || r.api.Sales() != httpapi.MaxKept {
			t.Errorf("one more is kept: %+v, %d sales", again, r.api.Sales())
		}
		r.api.EndWaits()
		fail.Unequal(t, r.api.Sales(), 0, "sales are known after the stop")
		r.alone(t, id, "", time.Millisecond)
		fail.Unequal(t, r.api.Sales(), 0, "sales are kept after the stop")
	})
}

// A stop of the service ends the streams, and their number is bounded. A store that does not answer is said, and the
// stream goes on.
func TestLiveFiguresEnd(t *testing.T) {
	served(t, func(t *testing.T, r *fixture, s *servertest.Server, id int64) {
		var down atomic.Bool
		r.orders.look = func(context.Context) error {
			if down.Load() {
				return order.ErrUnavailable
			}
			return nil
		}
		w := watch(t, s, id)
		w.figures()
		down.Store(true)
		if f, _ := w.figures(); f.Audit != nil {
			t.Errorf("%+v", f.Audit)
		}
		free := r.api.FillStreams()
		fail.Unequal(t, watch(t, s, id).status, http.StatusServiceUnavailable, "one stream too many")
		free()
		r.api.EndWaits()
		if e, open := w.next(); open {
			t.Errorf("after the stop: %+v", e)
		}
		synctest.Wait()
		fail.Unequal(t, r.api.Streams(), 0, "streams")
	})
}

// With tracing on the figures arrive while the stream is open, too.
func TestLiveFiguresAreTraced(t *testing.T) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	tracing, err := telemetry.Start(t.Context(), collector.URL, slog.New(slog.DiscardHandler))
	fail.NowIf(t, err)
	t.Cleanup(func() { tracing.Close(context.WithoutCancel(t.Context())) })
	r, id := onSale(t)
	r.handler = tracing.Handler(r.handler)
	s := r.listen(t)
	t.Cleanup(r.api.EndWaits)
	w := watch(t, s, id) // what is kept back never arrives: the stream does not end
	if w.figures(); r.api.Streams() != 1 {
		t.Error("the first figures arrived when the stream was over")
	}
}

// All watchers share a look. It does not end when the watcher that asked for it leaves, but with the service: a stop
// does not wait for a store that hangs.
func TestLiveFiguresOutliveTheOneWhoAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, id := onSale(t)
		looks, takes := 0, 1500*time.Millisecond
		r.orders.look = func(ctx context.Context) error {
			looks++
			taken, cancel := context.WithTimeout(ctx, takes)
			defer cancel()
			<-taken.Done()
			return ctx.Err()
		}
		r.alone(t, id, "", time.Second)
		if second := r.alone(t, id, "", time.Millisecond); len(second) != 1 || !strings.Contains(second[0].data, `"audit":{`) || looks != 1 {
			t.Errorf("after %d looks: %+v", looks, second)
		}
		simulate.Sleep(time.Minute)
		takes = time.Hour
		time.AfterFunc(time.Second, r.api.EndWaits)
		began := time.Now()
		if r.alone(t, id, "", time.Minute); looks != 2 || time.Since(began) != time.Second {
			t.Errorf("the stop waited %v for %d looks", time.Since(began), looks)
		}
	})
}

// The handovers of the lock on the voucher are counted while somebody watches, and no others. Where each buyer has a
// lock of their own, nothing is handed over from buyer to buyer.
func TestLiveFiguresOfHandovers(t *testing.T) {
	handovers := &lock.Handovers{}
	served(t, func(t *testing.T, r *fixture, s *servertest.Server, id int64) {
		grant := func(key string, how lock.Handover) {
			handovers.Of("reentrant")(lock.NewHeld(t.Context(), lock.Grant{Key: key, Handover: how}))
		}
		v, err := r.vouchers.Voucher(t.Context(), id)
		fail.NowIf(t, err)
		grant(v.StockKey(), lock.PassedInProcess)
		w := watch(t, s, id)
		if f, _ := w.figures(); f.Handovers == nil || f.Handovers.Passing != "told" || f.Handovers.InProcess != 0 {
			t.Errorf("at first: %+v", f.Handovers)
		}
		for _, how := range []lock.Handover{lock.FoundFree, lock.PassedInProcess, lock.PassedInProcess, lock.PassedByStore} {
			grant(v.StockKey(), how)
		}
		grant("order:1:2", lock.PassedByStore)
		f, _ := w.figures()
		if h := f.Handovers; h.Mechanism != "reentrant" || h.FoundFree != 1 || h.InProcess != 2 || h.ByStore != 1 {
			t.Errorf("%+v", h)
		}
		if f, _ := watch(t, s, r.sell(t, voucher.ScopeUser)).figures(); f.Handovers != nil {
			t.Errorf("of a lock for each buyer: %+v", f.Handovers)
		}
	}, func(_ *httpapi.Config, r *fixture) { r.handovers = handovers })
}
