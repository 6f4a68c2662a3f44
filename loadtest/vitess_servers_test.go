package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkVitess sells on one MySQL server, on Vitess with one shard, and on Vitess with two, step by step in turn, and prints
// what each step of an order costs there. make bench-vitess runs it.
func BenchmarkVitess(b *testing.B) {
	needWrk(b)
	layouts := []*layout{plainMySQL(b), onVitess(b, "one shard", "-"), onVitess(b, "two shards", "-80", "80-")}
	var results []stepResult
	for _, s := range vitessSteps() {
		results = append(results, stepResult{what: s.what, of: make([][]use, len(layouts))})
	}
	for b.Loop() {
		for round := range 1 + rounds() {
			for i, s := range vitessSteps() {
				for turn := range layouts {
					n := (round + turn) % len(layouts)
					used := layouts[n].measure(b, s)
					if round > 0 { // everything has run before it counts
						results[i].of[n] = append(results[i].of[n], used)
					}
				}
			}
		}
		results = append(results, idle(b, layouts))
	}
	b.ReportMetric(0, "ns/op") // a round has a fixed length
	fmt.Fprintln(os.Stdout, "\n"+useHead())
	for _, r := range results {
		r.print(layouts)
	}
	fmt.Fprintln(os.Stdout, "\n| memory, MB | service | gate | a tablet | a MySQL server |\n|---|---|---|---|---|")
	for _, l := range layouts {
		fmt.Fprintln(os.Stdout, l.memory(b))
	}
}

// buyersOf is how many buyers there are in a round, and buyersAtOnce how many of them at a time.
func buyersOf() int {
	if *quick {
		return 200
	}
	return 800
}

const buyersAtOnce = 32

// A voucher is of one of these kinds. There is one of each in every shard.
const (
	underLock   = "under a lock"
	byAdmission = "by admission"
	toBePaid    = "to be paid"
)

func vitessVouchers() map[string]map[string]any {
	wait := map[string]any{"lock_wait_ms": 30_000}
	return map[string]map[string]any{
		underLock:   {"stock": int64(plenty), "policy": wait},
		byAdmission: {"stock": int64(plenty), "policy": map[string]any{"flow": "admission"}},
		toBePaid:    {"stock": int64(plenty), "policy": wait, "price_cents": 8000, "pay_within_s": 3600},
	}
}

// vitessStep is something that each buyer does, or every second one.
type vitessStep struct {
	what string
	half int // 0: all buyers; 1 and 2: one half of them
	// do is nil if wrk orders by admission, for as long as a window.
	do func(l *layout, ctx context.Context, buyer int) error
	// done reports whether all that was begun is in the database.
	done func(b *testing.B, l *layout) bool
}

func vitessSteps() []vitessStep {
	order := func(kind string) func(*layout, context.Context, int) error {
		return func(l *layout, ctx context.Context, buyer int) error {
			_, err := l.order(ctx, kind, buyer)
			return err
		}
	}
	return []vitessStep{
		{what: "ordered under the default lock", do: order(underLock)},
		{what: "refused: has an order already", do: func(l *layout, ctx context.Context, buyer int) error {
			if _, err := l.order(ctx, underLock, buyer); err == nil || !strings.Contains(err.Error(), "already_ordered") {
				return fmt.Errorf("a second order: %w", err)
			}
			return nil
		}},
		{what: "ordered by admission, and persisted"},
		{what: "ordered under the default lock, to be paid", do: func(l *layout, ctx context.Context, buyer int) (err error) {
			l.orders[buyer], err = l.order(ctx, toBePaid, buyer)
			return err
		}},
		{what: "`GET` of an order", do: func(l *layout, ctx context.Context, buyer int) error {
			return l.call(ctx, l.userOf(buyer), http.MethodGet, l.api.url+"/api/v1/orders/"+l.orders[buyer], "", nil)
		}},
		{what: "paid", half: 1, do: (*layout).pay, done: func(b *testing.B, l *layout) bool { return l.count(b, toBePaid, "paid") == l.begun/2 }},
		{what: "cancelled", half: 2, do: func(l *layout, ctx context.Context, buyer int) error {
			return l.call(ctx, l.userOf(buyer), http.MethodPost, l.api.url+"/api/v1/orders/"+l.orders[buyer]+"/cancel", "", nil)
		}},
	}
}

func (l *layout) userOf(buyer int) int64 { return int64(l.user + buyer) }

// order places the order of a buyer. Half of the buyers want the voucher of one shard, half that of the other.
func (l *layout) order(ctx context.Context, kind string, buyer int) (id string, err error) {
	of := l.vouchers[kind]
	var o struct {
		ID string `json:"order_id"`
	}
	err = l.call(ctx, l.userOf(buyer), http.MethodPost, l.api.url+"/api/v1/vouchers/"+of[buyer%len(of)]+"/orders", "", &o)
	return o.ID, err
}

// pay creates the payment of an order, and presses the provider's button, after which the provider sends its event.
func (l *layout) pay(ctx context.Context, buyer int) error {
	var p struct {
		URL string `json:"pay_url"`
	}
	if err := l.call(ctx, l.userOf(buyer), http.MethodPost, l.api.url+"/api/v1/orders/"+l.orders[buyer]+"/payment", "", &p); err != nil {
		return err
	}
	return l.call(ctx, l.userOf(buyer), http.MethodPost, p.URL, url.Values{"decision": {"pay"}}.Encode(), nil)
}

// measure has the buyers of a round make one step, and returns what each of them used. The first step begins a round: its
// buyers are new.
func (l *layout) measure(b *testing.B, s vitessStep) use {
	b.Helper()
	if s.what == vitessSteps()[0].what {
		l.user += len(l.orders)
		l.orders = make([]string, buyersOf())
		l.begun += int64(len(l.orders))
	}
	before := l.used(b)
	var made int64
	if s.do == nil {
		made = l.rushAll(b)
	} else {
		made = l.each(b, s)
	}
	if b.Failed() {
		b.FailNow()
	}
	return l.used(b).minus(before).each(float64(made))
}

// each has buyers make a step, and returns how many did.
func (l *layout) each(b *testing.B, s vitessStep) int64 {
	b.Helper()
	var next, made atomic.Int64
	var all sync.WaitGroup
	for range buyersAtOnce {
		all.Go(func() {
			for buyer := int(next.Add(1)) - 1; buyer < len(l.orders); buyer = int(next.Add(1)) - 1 {
				if s.half > 0 && buyer/2%2 != s.half-1 { // both halves want both vouchers
					continue
				}
				if err := s.do(l, b.Context(), buyer); err != nil {
					b.Errorf("%s, %s: %v", l.name, s.what, err)
					return
				}
				made.Add(1)
			}
		})
	}
	all.Wait()
	for s.done != nil && !b.Failed() && !s.done(b, l) {
		pause(b, 10*time.Millisecond)
	}
	return made.Load()
}

// rushAll has wrk order by admission, one voucher after the other, and returns how many orders were persisted.
func (l *layout) rushAll(b *testing.B) int64 {
	b.Helper()
	before, answered := l.sold(b, byAdmission), int64(0)
	for _, voucher := range l.vouchers[byAdmission] {
		answered += int64(l.rush(b, l.api.url+"/api/v1/vouchers/"+voucher+"/orders").requests)
	}
	for last := int64(-1); ; pause(b, 100*time.Millisecond) { // wrk ends with requests that were not answered yet
		sold := l.sold(b, byAdmission) - before
		if sold >= answered && sold == last {
			return sold
		}
		last = sold
	}
}

// idle measures all layouts at once while nothing is asked of them; each is a second.
func idle(b *testing.B, layouts []*layout) stepResult {
	b.Helper()
	const seconds = 10
	r := stepResult{what: "idle, for a second", of: make([][]use, len(layouts))}
	before := make([]use, len(layouts))
	for i, l := range layouts {
		before[i] = l.used(b)
	}
	pause(b, seconds*time.Second)
	for i, l := range layouts {
		r.of[i] = []use{l.used(b).minus(before[i]).each(seconds)}
	}
	return r
}

// stepResult is what a step used in each round, by layout.
type stepResult struct {
	what string
	of   [][]use
}

func (r stepResult) print(layouts []*layout) {
	for i, l := range layouts {
		var ratios []float64
		var sum use
		for round, u := range r.of[i] {
			ratios = append(ratios, u.cpu()/r.of[0][round].cpu())
			sum = sum.plus(u)
		}
		fmt.Fprintf(os.Stdout, "| %s | %s | %s | %.2f (%.2f to %.2f) |\n", r.what, l.name, sum.each(float64(len(r.of[i]))).perUnit(),
			median(ratios), slices.Min(ratios), slices.Max(ratios))
	}
}
