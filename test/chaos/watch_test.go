package chaos

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"seckill/internal/testkit/fail"
	"seckill/test/harness"
)

// watch is a buyer after the other of two large sales, one for each flow, and how long they wait for their order to be in the
// database, while steps are taken.
type watch struct {
	c       *lifecycleChaos
	client  *http.Client // waits for longer than a buyer would
	sales   []*watchedSale
	stopped chan struct{}
	buyers  sync.WaitGroup
	steps   []watchedStep
}

type watchedStep struct {
	name     string
	from, to time.Time
}

type watchedSale struct {
	*harness.Sale
	flow string

	mu     sync.Mutex
	orders []watchedOrder
}

type watchedOrder struct {
	id       string
	from, to time.Time
	refused  int // answers that nothing can be said now, of the service or of nobody
}

const (
	watchedStock  = 1_000_000
	watchedBuyers = 4 // at each sale
)

func openWatch(c *lifecycleChaos) *watch {
	c.t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 4 * watchedBuyers}
	c.t.Cleanup(transport.CloseIdleConnections)
	w := &watch{c: c, client: &http.Client{Transport: transport, Timeout: harness.Patience}, stopped: make(chan struct{})}
	for _, flow := range []string{"locked", "admission"} {
		policy := `{"lock":"none"}`
		if flow == "admission" {
			policy = `{"flow":"admission"}`
		}
		w.sales = append(w.sales, &watchedSale{Sale: harness.OpenSale(c.t, watchedStock, policy, c.apis[:]...), flow: flow})
	}
	for _, s := range w.sales {
		for range watchedBuyers {
			w.buyers.Go(func() {
				for c.t.Context().Err() == nil {
					w.buy(s)
					select {
					case <-w.stopped:
						return
					case <-time.After(50 * time.Millisecond):
					}
				}
			})
		}
	}
	return w
}

// step is a strike during which the buyers are watched.
func (w *watch) step(name string, do func()) strike {
	return func() {
		w.c.struck[name]++
		from := time.Now()
		do()
		w.steps = append(w.steps, watchedStep{name, from, time.Now()})
	}
}

func (w *watch) buy(s *watchedSale) {
	user := int(w.c.users.Add(1))
	o := watchedOrder{from: time.Now()}
	var told struct {
		ID     string `json:"order_id"`
		Status string
	}
	method, path := http.MethodPost, "/api/v1/vouchers/"+s.Voucher+"/orders"
	for n := user; told.Status != "confirmed" && w.c.t.Context().Err() == nil; n++ {
		status, body := w.send(method, *w.c.urls[n%len(w.c.urls)].Load()+path, user)
		switch {
		case status == 0 || status == http.StatusServiceUnavailable:
			o.refused++
			time.Sleep(20 * time.Millisecond)
		case status == http.StatusConflict && strings.Contains(body, "already_ordered") && o.refused > 0: // nobody knew it
			told.Status = "confirmed"
		case status/100 == 2:
			fail.If(w.c.t, json.Unmarshal([]byte(body), &told))
			method, path = http.MethodGet, "/api/v1/orders/"+told.ID+"?wait=1s&state=pending"
		default:
			w.c.t.Errorf("user %d of the watched sale under %s was told %d %s", user, s.flow, status, body)
			return
		}
	}
	o.id, o.to = told.ID, time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.orders = append(s.orders, o)
}

func (w *watch) send(method, address string, user int) (status int, body string) {
	return w.c.sendWith(w.client, method, address, user, nil, "")
}

// close ends the sales, and checks that each order is in the database, once.
func (w *watch) close() {
	w.c.t.Helper()
	close(w.stopped)
	w.buyers.Wait()
	for _, s := range w.sales {
		booked := harness.Statuses(w.c.t, w.c.where.DB, s.Voucher)
		fail.Unequal(w.c.t, len(booked), len(s.orders), "orders in the database, of those of the watched sale under %s", s.flow)
		for _, o := range s.orders {
			if o.id != "" && booked[o.id] != "confirmed" {
				w.c.t.Errorf("an order of the watched sale under %s is lost: %+v", s.flow, o)
			}
		}
		now := *s.Sale
		now.URLs = []string{w.c.apis[0].URL}
		want := harness.Audit{InitialStock: watchedStock, Stock: watchedStock - len(booked), Orders: len(booked), Balanced: true}
		fail.Unequal(w.c.t, now.AtRest(0), want, "audit of the watched sale under %s", s.flow)
		w.report(s)
	}
}

// report logs how long buyers waited while steps were taken, those of one name together, and otherwise.
func (w *watch) report(s *watchedSale) {
	var rows []*watchedRow
	byName := map[string]*watchedRow{}
	row := func(name string) *watchedRow {
		if byName[name] == nil {
			byName[name] = &watchedRow{name: name}
			rows = append(rows, byName[name])
		}
		return byName[name]
	}
	row(noStep)
	for _, step := range w.steps {
		r := row(step.name)
		r.times++
		r.took = max(r.took, step.to.Sub(step.from))
	}
	for _, o := range s.orders {
		row(w.during(o)).add(o)
	}
	for _, r := range rows {
		w.c.t.Logf("%-9s %2d × %-48s in at most %6v: %5d orders, the slowest after %6v; %d answers of 503 or none", s.flow, r.times, r.name,
			r.took.Round(time.Millisecond), r.orders, r.slowest.Round(time.Millisecond), r.refused)
	}
}

const noStep = "no step"

// during returns the step that took most of an order's time.
func (w *watch) during(o watchedOrder) (name string) {
	name = noStep
	var most time.Duration
	for _, step := range w.steps {
		from, to := o.from, o.to
		if step.from.After(from) {
			from = step.from
		}
		if step.to.Before(to) {
			to = step.to
		}
		if both := to.Sub(from); both > most {
			name, most = step.name, both
		}
	}
	return name
}

// watchedRow adds up what was seen during the steps of one name.
type watchedRow struct {
	name                   string
	times, orders, refused int
	took, slowest          time.Duration // of a step, and until an order was in the database
}

func (r *watchedRow) add(o watchedOrder) {
	r.orders++
	r.refused += o.refused
	r.slowest = max(r.slowest, o.to.Sub(o.from))
}
