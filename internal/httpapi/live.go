package httpapi

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"seckill/internal/httpserver"
	"seckill/internal/lock"
	"seckill/internal/voucher"
)

// Bounds of the live figures of sales.
const (
	// maxStreams is the number of streams of one process. A stream costs a connection and a goroutine.
	maxStreams = 256
	// streamTime ends a stream. Its client opens another one within keepSale, and continues where it was.
	streamTime = 10 * time.Minute
	// keepSale is how long a sale is kept when its last watcher has left, maxKept how many such sales are.
	keepSale = 30 * time.Second
	maxKept  = 16
	// sampleEvery is the time between two looks at a sale, however many watch it.
	sampleEvery = time.Second
	// sampleShare makes a look that takes long a rare one: it takes about one part in so many of the time, as long as
	// that does not make it rarer than every maxSamplePause.
	sampleShare    = 10
	maxSamplePause = 5 * time.Second
	// keptSamples is how many samples a client may have missed and still gets, when it comes back.
	keptSamples = 120
)

var errTooManyStreams = fmt.Errorf("%w: of live figures", httpserver.ErrTooMany)

// live is the sales that somebody watches, or has watched a moment ago. While there is none, an order costs one look at
// a number.
type live struct {
	streams atomic.Int64
	known   atomic.Int64 // the number of sales

	mu    sync.RWMutex
	sales map[int64]*liveSale
	kept  int // the number of sales without watchers
	ended bool
}

// liveSale is what is known of a sale since somebody watches it.
type liveSale struct {
	id   int64
	name string // tells these samples from those of an earlier watch and of another process

	// Guarded by live.mu.
	watchers int
	drop     *time.Timer // nil while somebody watches

	counting sync.Mutex
	outcomes map[string]int64
	rushes   int64
	took     *hdrhistogram.Histogram // of the answers since the last look, in microseconds

	// handovers returns the leases of the lock on the voucher since somebody watches; nil if it is sold under none.
	handovers func() lock.HandoverCounts
	uncount   func() // ends the counting

	mu      sync.Mutex
	samples []sample // the newest last
	next    time.Time
}

// sample is an event of a stream.
type sample struct {
	seq  int64
	data []byte
}

// figuresJSON is one look at a sale.
type figuresJSON struct {
	At    time.Time  `json:"at"`
	Audit *auditJSON `json:"audit"` // null if the stores do not answer
	// Outcomes counts the answers of this process to orders, by code, since somebody watches the sale.
	Outcomes map[string]int64 `json:"outcomes"`
	// Latency is how long this process took for its answers since the last look; null if it gave none.
	Latency *latencyJSON `json:"latency"`
	// Rushes counts those that have begun in this process since somebody watches the sale.
	Rushes int64 `json:"rushes"`
	Paused bool  `json:"paused"`
	// Lock is the state of the lock on the voucher; null if there is none, or none that can be asked.
	Lock *lockJSON `json:"lock"`
	// Handovers is null if there is no lock on the voucher.
	Handovers *handoversJSON `json:"handovers"`
}

type latencyJSON struct {
	P50 float64 `json:"p50_ms"`
	P95 float64 `json:"p95_ms"`
	P99 float64 `json:"p99_ms"`
}

// handoversJSON is how the lock on a voucher came to the orders of this process, since somebody watches the sale.
type handoversJSON struct {
	Mechanism string `json:"mechanism"`
	// Passing says whether the mechanism passes a lock on to a waiter and tells it so. If not, only the sum of the
	// figures means something.
	Passing   lock.Passing `json:"passing"`
	FoundFree int64        `json:"found_free"`
	InProcess int64        `json:"in_process"`
	ByStore   int64        `json:"by_store"`
}

func newLive() *live { return &live{sales: make(map[int64]*liveSale)} }

// note counts what became of an order, and how long its answer took.
func (l *live) note(r *request, outcome string, took time.Duration) {
	if l.known.Load() == 0 {
		return
	}
	id, err := r.pathID()
	if err != nil {
		return
	}
	l.count(id, func(s *liveSale) {
		s.outcomes[outcome]++
		// requestTimeout is in the histogram's range, and what took longer counts as that.
		_ = s.took.RecordValue(min(took, requestTimeout).Microseconds())
	})
}

// count changes what is counted of a sale, if somebody watches it.
func (l *live) count(id int64, change func(s *liveSale)) {
	l.mu.RLock()
	s := l.sales[id]
	l.mu.RUnlock()
	if s != nil {
		s.counting.Lock()
		defer s.counting.Unlock()
		change(s)
	}
}

// watch adds a watcher of a sale. The watcher calls leave at its end.
func (l *live) watch(v *voucher.Voucher, handovers *lock.Handovers) (s *liveSale, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch s = l.sales[v.ID]; {
	case s == nil:
		s = &liveSale{id: v.ID, name: rand.Text()[:8], outcomes: make(map[string]int64), uncount: func() {}}
		s.took = hdrhistogram.New(1, requestTimeout.Microseconds(), 2)
		if handovers != nil && underOneLock(v) {
			s.handovers, s.uncount = handovers.Watch(v.Policy.Lock, v.StockKey())
		}
		l.sales[v.ID] = s
		l.known.Add(1)
	case s.drop != nil:
		l.unkeep(s)
	}
	s.watchers++
	return s, func() { l.leave(s) }
}

// leave removes a watcher. The last one may come back: the sale is kept for a while, unless too many are.
func (l *live) leave(s *liveSale) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.watchers--; s.watchers > 0 {
		return
	}
	if l.ended || l.kept == maxKept {
		l.forget(s)
		return
	}
	l.kept++
	var timer *time.Timer
	timer = time.AfterFunc(keepSale, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.drop == timer { // else somebody came back just now
			l.unkeep(s)
			l.forget(s)
		}
	})
	s.drop = timer
}

// unkeep ends the time for which a sale is kept. The lock is held.
func (l *live) unkeep(s *liveSale) {
	s.drop.Stop()
	s.drop = nil
	l.kept--
}

// forget removes a sale without watchers. The lock is held.
func (l *live) forget(s *liveSale) {
	delete(l.sales, s.id)
	l.known.Add(-1)
	s.uncount()
}

// end forgets the sales without watchers, now and from then on.
func (l *live) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	for _, s := range l.sales {
		if s.drop != nil {
			l.unkeep(s)
			l.forget(s)
		}
	}
}

// watchSale is GET /api/v1/vouchers/{id}/live: a stream of server-sent events with a look at the sale each. A client
// that was cut off sends Last-Event-ID and gets what it has missed, or the event "gap" first if that is gone.
func (a *API) watchSale(ctx context.Context, r *request) (reply, error) {
	id, err := r.pathID()
	if err != nil {
		return reply{}, err
	}
	v, err := a.deps.Vouchers.Voucher(ctx, id)
	if err != nil {
		return reply{}, err
	}
	if r.Method == http.MethodHead {
		return a.render(http.StatusOK, struct{}{})
	}
	if a.live.streams.Add(1) > maxStreams {
		a.live.streams.Add(-1)
		return reply{}, errTooManyStreams
	}
	r.release() // a stream counts as one, and no longer as a request
	return reply{outcome: "ok", page: httpserver.WatchClient(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer a.live.streams.Add(-1)
		a.stream(w, r, v)
	}))}, nil
}

// stream sends samples until the client is gone, the service stops, or the stream has lasted for streamTime.
func (a *API) stream(w http.ResponseWriter, r *request, v *voucher.Voucher) {
	ctx, cancel := context.WithTimeout(r.Context(), streamTime)
	defer cancel()
	defer context.AfterFunc(a.waits, cancel)()
	sale, leave := a.live.watch(v, a.deps.Handovers)
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would keep the events back
	out := http.NewResponseController(w)
	last, known := sale.position(r.Header.Get("Last-Event-ID"))
	if !known {
		if _, err := fmt.Fprint(w, "event: gap\ndata: {}\n\n"); err != nil {
			return
		}
	}
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		for _, s := range a.look(ctx, sale, v, last) {
			if _, err := fmt.Fprintf(w, "id: %s-%d\ndata: %s\n\n", sale.name, s.seq, s.data); err != nil {
				return
			}
			last = s.seq
		}
		if out.Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// position reads Last-Event-ID. It reports false if there are events that the client has missed and that are gone.
func (s *liveSale) position(last string) (seq int64, known bool) {
	if last == "" {
		return 0, true
	}
	name, number, _ := strings.Cut(last, "-")
	seq, err := strconv.ParseInt(number, 10, 64)
	if err != nil || name != s.name || seq < 0 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) > 0 && seq+1 < s.samples[0].seq {
		return 0, false
	}
	return seq, true
}

// look returns the samples after the given one. The first watcher that asks in a second takes a new one for all.
func (a *API) look(ctx context.Context, s *liveSale, v *voucher.Voucher, after int64) (newer []sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if began := time.Now(); !began.Before(s.next) {
		if data, err := json.Marshal(a.figures(ctx, s, v)); err == nil {
			seq := int64(1)
			if n := len(s.samples); n > 0 {
				seq = s.samples[n-1].seq + 1
			}
			s.samples = append(s.samples, sample{seq, data})
			if len(s.samples) > keptSamples {
				s.samples = append(s.samples[:0], s.samples[len(s.samples)-keptSamples:]...)
			}
		}
		// A little less than the ticks of the watchers, so that none of them is too early for its turn.
		s.next = began.Add(max(sampleEvery-sampleEvery/10, min(sampleShare*time.Since(began), maxSamplePause)))
	}
	for i, sample := range s.samples {
		if sample.seq > after {
			return append(newer, s.samples[i:]...)
		}
	}
	return nil
}

// figures looks at a sale once, for all its watchers. The look does not end when the watcher that asked for it leaves.
func (a *API) figures(ctx context.Context, s *liveSale, v *voucher.Voucher) figuresJSON {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), inspectTimeout)
	defer cancel()
	defer context.AfterFunc(a.waits, cancel)()
	out := figuresJSON{At: a.deps.Now().UTC(), Outcomes: map[string]int64{}}
	if au, err := a.deps.Orders.Audit(ctx, v.ID); err == nil {
		out.Audit = new(newAuditJSON(au))
	}
	if underOneLock(v) {
		if locker, err := a.deps.Lockers.Locker(v.Policy.Lock); err == nil {
			if state, err := inspect(ctx, locker, v.StockKey()); err == nil {
				out.Lock = new(newLockJSON(v.Policy.Lock, state))
			} else if !errors.Is(err, errors.ErrUnsupported) {
				a.deps.Log.DebugContext(ctx, "lock not inspected", "lock", v.Policy.Lock, "error", err)
			}
		}
	}
	out.Handovers = s.handedOver(v.Policy.Lock)
	if now, err := a.deps.Vouchers.Voucher(ctx, v.ID); err == nil {
		out.Paused = now.Paused
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	maps.Copy(out.Outcomes, s.outcomes)
	out.Rushes = s.rushes
	if s.took.TotalCount() > 0 {
		ms := func(percent float64) float64 { return float64(s.took.ValueAtQuantile(percent)) / 1000 }
		out.Latency = &latencyJSON{ms(50), ms(95), ms(99)}
		s.took.Reset()
	}
	return out
}

// underOneLock reports whether all orders of a voucher take the same lock.
func underOneLock(v *voucher.Voucher) bool {
	return v.Policy.Flow == voucher.FlowLocked && v.Policy.Scope == voucher.ScopeVoucher
}

func (s *liveSale) handedOver(mechanism string) *handoversJSON {
	if s.handovers == nil {
		return nil
	}
	m, err := lock.Lookup(mechanism)
	if err != nil {
		return nil
	}
	counts := s.handovers()
	return &handoversJSON{
		Mechanism: mechanism, Passing: m.Passing,
		FoundFree: counts.FoundFree, InProcess: counts.InProcess, ByStore: counts.ByStore,
	}
}
