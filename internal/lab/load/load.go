// Package load sends the orders of many buyers to the API processes of one machine, and records the answers.
//
// It is a closed loop: a fixed number of buyers is served at once, and when one has its answer, the next one comes. The
// same seed gives the same buyers in the same order at the same times, as far as the machine is fast enough.
//
// It connects to loopback addresses only.
package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"seckill/internal/lab/finding"
)

// DefaultConcurrency is the default of [Load].Concurrency.
const DefaultConcurrency = 64

// Load says how many buyers come, and when.
type Load struct {
	// Buyers is how many come. Their user ids are consecutive from First (default 1).
	Buyers int
	First  int64
	// Requests is how many each buyer sends, all at the same moment and to different instances if possible. Default 1.
	Requests int
	// Concurrency is how many buyers are served at once. The first ones start together, on one signal. Default
	// [DefaultConcurrency].
	Concurrency int
	// Seed decides the order of the buyers and their times.
	Seed int64
	// Duration is how long new buyers come; the rest does not come. 0: until all have come.
	Duration time.Duration
	// Spread is the time over which arrivals are spread randomly. 0: each comes as soon as it can be served.
	Spread time.Duration
	// Retries is how often a buyer tries again that is told "busy", each time after RetryAfter.
	Retries    int
	RetryAfter time.Duration
}

// Validate reports what is wrong with a load.
func (l Load) Validate() error {
	if l.Buyers < 1 {
		return fmt.Errorf("load: %d buyers", l.Buyers)
	}
	if min(l.Requests, l.Concurrency, l.Retries) < 0 || l.First < 0 {
		return errors.New("load: a number is negative")
	}
	if min(l.Duration, l.Spread, l.RetryAfter) < 0 {
		return errors.New("load: a duration is negative")
	}
	return nil
}

func (l Load) withDefaults() Load {
	l.First = cmp.Or(l.First, 1)
	l.Requests = cmp.Or(l.Requests, 1)
	l.Concurrency = min(cmp.Or(l.Concurrency, DefaultConcurrency), l.Buyers)
	return l
}

// Target is an API process.
type Target struct {
	Name string
	URL  string // http://127.0.0.1:port
}

// buyer is one buyer: its position, its user id and its arrival time.
type buyer struct {
	index int
	user  int64
	after time.Duration
}

// arrivals returns the buyers in order: a permutation and offsets that only the seed decides.
func (l Load) arrivals() []buyer {
	chance := rand.New(rand.NewPCG(uint64(l.Seed), 0x6c6f6164)) // the second word separates it from other uses of the seed
	crowd := make([]buyer, l.Buyers)
	for place, who := range chance.Perm(l.Buyers) {
		crowd[place] = buyer{index: place, user: l.First + int64(who)}
	}
	if l.Spread > 0 {
		offsets := make([]time.Duration, l.Buyers)
		for i := range offsets {
			offsets[i] = time.Duration(chance.Int64N(int64(l.Spread)))
		}
		slices.Sort(offsets)
		for i := range crowd {
			crowd[i].after = offsets[i]
		}
	}
	return crowd
}

// Send sends the orders of a load for a voucher, to each target in turn, and returns when all are answered. If ctx ends
// earlier, it cancels the pending requests and returns the answers so far, with the error of ctx.
func (c *Client) Send(ctx context.Context, targets []Target, voucher int64, l Load) (*Outcome, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	if len(targets) == 0 {
		return nil, errors.New("load: there is nobody to buy from")
	}
	l = l.withDefaults()
	s := &sending{client: c, targets: targets, voucher: voucher, load: l, start: make(chan struct{})}
	coming := make(chan buyer)
	var crowd sync.WaitGroup
	for range l.Concurrency {
		crowd.Go(func() {
			<-s.start
			for b := range coming {
				s.serve(ctx, b)
			}
		})
	}
	s.began = time.Now()
	close(s.start)
	s.feed(ctx, coming)
	close(coming)
	crowd.Wait()
	return newOutcome(s.answers, time.Since(s.began)), ctx.Err()
}

// sending is the state of one load.
type sending struct {
	client  *Client
	targets []Target
	voucher int64
	load    Load
	began   time.Time
	start   chan struct{} // closed when the first buyers may start

	mu      sync.Mutex
	answers []Answer
}

// feed passes the buyers on, one after the other.
func (s *sending) feed(ctx context.Context, coming chan<- buyer) {
	var over <-chan time.Time
	if s.load.Duration > 0 {
		timer := time.NewTimer(s.load.Duration)
		defer timer.Stop()
		over = timer.C
	}
	for _, b := range s.load.arrivals() {
		if s.load.Duration > 0 && b.after >= s.load.Duration {
			return
		}
		select {
		case coming <- b:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// serve sends the requests of a buyer at its time.
func (s *sending) serve(ctx context.Context, b buyer) {
	if !sleep(ctx, time.Until(s.began.Add(b.after))) {
		return
	}
	var all sync.WaitGroup
	together := make(chan struct{})
	for i := range s.load.Requests {
		all.Go(func() {
			<-together
			s.order(ctx, b, s.targets[(b.index*s.load.Requests+i)%len(s.targets)])
		})
	}
	close(together)
	all.Wait()
}

// order sends one request, and retries it as the load says.
func (s *sending) order(ctx context.Context, b buyer, at Target) {
	for try := 0; ; try++ {
		a := s.client.Buy(ctx, at, s.voucher, b.user)
		a.Try = try
		s.mu.Lock()
		s.answers = append(s.answers, a)
		s.mu.Unlock()
		if a.Code != Busy || try == s.load.Retries || !sleep(ctx, s.load.RetryAfter) {
			return
		}
	}
}

// sleep reports false if ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// requestTimeout is how long a buyer waits for an answer.
const requestTimeout = 20 * time.Second

// Codes of an [Answer] that the service does not send.
const (
	Created = "created" // the order is placed
	Network = "network" // there was no answer
)

// Busy is the service's code for a buyer that did not get the lock.
const Busy = "busy"

// Client sends orders. Several goroutines may use it.
type Client struct{ http *http.Client }

// NewClient returns a client with connections of its own; see [Client.Close].
func NewClient() *Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: onlyLoopback}
	return &Client{http: &http.Client{
		Timeout: requestTimeout,
		Transport: &http.Transport{ // and no proxy
			DialContext:         dialer.DialContext,
			MaxIdleConns:        1024,
			MaxIdleConnsPerHost: 512, // closing connections after a load would cost the next one time at its start
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// ErrRemote means that an address is not on this machine.
var ErrRemote = errors.New("load: only this machine is put under load")

// onlyLoopback checks the address after name resolution.
func onlyLoopback(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !at.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: not %s", ErrRemote, address)
	}
	return nil
}

// Answer is the answer to a buyer.
type Answer struct {
	User     int64
	Instance string // the name of the [Target]
	// Asked and Answered are nanoseconds since 1970.
	Asked, Answered int64
	Status          int // 0 without an answer
	// Code is [Created], [Network] or the code of the problem, such as [Busy] or "sold_out".
	Code  string
	Order int64 // if it is placed
	Try   int   // how many tries came before
	Err   error // why there was no answer
}

// Took is the response time.
func (a Answer) Took() time.Duration { return time.Duration(a.Answered - a.Asked) }

// Buy orders a unit of a voucher for a user. Errors are in the answer.
func (c *Client) Buy(ctx context.Context, from Target, voucher, user int64) Answer {
	a := Answer{User: user, Instance: from.Name, Asked: time.Now().UnixNano()}
	var told struct {
		OrderID string `json:"order_id"`
		Code    string `json:"code"`
	}
	path := "/api/v1/vouchers/" + strconv.FormatInt(voucher, 10) + "/orders"
	a.Status, a.Err = c.Do(ctx, from, http.MethodPost, path, user, nil, &told)
	a.Answered = time.Now().UnixNano()
	switch {
	case a.Err != nil:
		a.Code = Network
	case a.Status == http.StatusCreated:
		a.Code = Created
		a.Order, a.Err = strconv.ParseInt(told.OrderID, 10, 64)
	default:
		a.Code = told.Code
	}
	return a
}

// Do calls the API as a user (0: nobody), with a JSON body (nil: none), and decodes the answer, whatever its status.
func (c *Client) Do(ctx context.Context, at Target, method, path string, user int64, body io.Reader, answer any) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, method, at.URL+path, body)
	if err != nil {
		return 0, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if user != 0 {
		req.Header.Set("X-User-ID", strconv.FormatInt(user, 10))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return resp.StatusCode, fmt.Errorf("%s %s: %s with a body that is not understood: %.200q", method, path, resp.Status, data)
	}
	return resp.StatusCode, nil
}

// Outcome is the result of a load.
type Outcome struct {
	Requests int            // that were sent
	Answers  map[string]int // by code
	Latency  finding.Latency
	All      []Answer // in the order of the answers
}

// Placed returns the answers of confirmed orders.
func (o *Outcome) Placed() []Answer {
	var placed []Answer
	for _, a := range o.All {
		if a.Code == Created {
			placed = append(placed, a)
		}
	}
	return placed
}

func newOutcome(answers []Answer, took time.Duration) *Outcome {
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Answered, b.Answered) })
	o := &Outcome{Requests: len(answers), Answers: map[string]int{}, All: answers}
	for _, a := range answers {
		o.Answers[a.Code]++
	}
	o.Latency = latency(answers, took)
	return o
}

// Range of the histogram, and its precision in significant digits.
const (
	shortest = int64(time.Microsecond)
	longest  = int64(2 * requestTimeout)
	digits   = 3
)

// latency uses answered requests only: the latency of the others is unknown.
func latency(answers []Answer, took time.Duration) finding.Latency {
	h := hdrhistogram.New(shortest, longest, digits)
	var times []int64
	for _, a := range answers {
		if a.Code != Network {
			ns := min(max(int64(a.Took()), shortest), longest)
			times = append(times, ns)
			_ = h.RecordValue(ns) // it refuses only values out of its range
		}
	}
	l := finding.Latency{Count: len(times)}
	if l.Count == 0 {
		return l
	}
	if seconds := took.Seconds(); seconds > 0 {
		l.PerSecond = float64(l.Count) / seconds
	}
	l.P50MS, l.P90MS, l.P99MS = ms(h.ValueAtQuantile(50)), ms(h.ValueAtQuantile(90)), ms(h.ValueAtQuantile(99))
	l.MaxMS = ms(slices.Max(times))
	l.Buckets = buckets(times)
	return l
}

// perDecade is the number of bars per power of ten.
const perDecade = 10

// buckets returns bars of equal width on a logarithmic axis, from the first that is not empty to the last.
func buckets(times []int64) []finding.Bucket {
	bar := func(ns int64) int { return int(math.Ceil(math.Log10(float64(ns)) * perDecade)) }
	first := bar(slices.Min(times))
	all := make([]finding.Bucket, bar(slices.Max(times))-first+1)
	for i := range all {
		all[i].UpToMS = ms(int64(math.Round(math.Pow(10, float64(first+i)/perDecade))))
	}
	for _, ns := range times {
		all[bar(ns)-first].Count++
	}
	return all
}

// ms rounds to microseconds.
func ms(ns int64) float64 { return math.Round(float64(ns)/1e3) / 1e3 }
