package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"seckill/internal/database"
	"seckill/internal/eventlog"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// Sale is a voucher on sale.
type Sale struct {
	Voucher   int64 // its id
	Policy    voucher.Policy
	run       *Rig
	instances []*Instance
	db        *database.DB // nil: the shared one, or that of the instances

	mu        sync.Mutex
	answers   []load.Answer
	observers []*Observer
	sources   []func() []eventlog.Event
}

// Sale puts a voucher on sale, from now on, at API processes. Without any, it writes the voucher to the shared
// database, for lock clients. The seed of the options decides whom faults with a probability strike, unless the policy
// has a seed of its own.
func (r *Rig) Sale(policy voucher.Policy, stock int64, on []*Instance) *Sale {
	return r.sale(nil, voucher.Voucher{Stock: stock, Policy: policy}, on)
}

// SaleIn puts a voucher on sale in a database.
func (r *Rig) SaleIn(db *database.DB, policy voucher.Policy, stock int64) *Sale {
	return r.sale(db, voucher.Voucher{Stock: stock, Policy: policy}, nil)
}

// SaleWithPayment puts a voucher on sale in a database. Its orders are to be paid within a time.
func (r *Rig) SaleWithPayment(db *database.DB, policy voucher.Policy, stock, cents int64, within time.Duration) *Sale {
	return r.sale(db, voucher.Voucher{Stock: stock, Policy: policy, PriceCents: cents, PayWithin: within}, nil)
}

// sale puts a voucher on sale at API processes or, without any, in a database; nil for the shared one.
func (r *Rig) sale(db *database.DB, v voucher.Voucher, on []*Instance) *Sale {
	policy := v.Policy
	byChance := func(f lock.Fault) bool { return f.Probability > 0 && f.Probability < 1 }
	if policy.FaultSeed == 0 && slices.ContainsFunc(policy.Faults, byChance) {
		policy.FaultSeed = r.Seed()
	}
	v.Title, v.InitialStock, v.Policy = r.name, v.Stock, policy
	v.BeginAt, v.EndAt, v.CreatedAt = time.Now().Add(-time.Minute).UTC(), time.Now().Add(time.Hour).UTC(), time.Now().UTC()
	sale := &Sale{Policy: policy, run: r, instances: on}
	if len(on) == 0 {
		v.ID = r.NextID()
		r.Must(v.Validate())
		if sale.db = db; db == nil {
			sale.db = r.DB()
		}
		r.Must(sale.db.Vouchers().CreateVoucher(r.ctx, &v))
		sale.Voucher = v.ID
		return sale
	}
	sale.Voucher = r.create(on[0], v)
	for _, i := range on {
		sale.addInstance(i)
		sale.awaitVoucher(i)
	}
	return sale
}

// statusError is an unexpected answer of the API.
type statusError struct {
	path         string
	status       int
	code, detail string
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d, %s %s", e.path, e.status, e.code, e.detail)
}

func (r *Rig) create(at *Instance, v voucher.Voucher) (id int64) {
	body, err := json.Marshal(map[string]any{
		"title": v.Title, "stock": v.InitialStock, "begin_at": v.BeginAt, "end_at": v.EndAt, "policy": v.Policy,
	})
	r.Must(err)
	var answer struct {
		ID           int64 `json:"id,string"`
		Code, Detail string
	}
	const path = "/api/v1/vouchers"
	status, err := r.env.client.Do(r.ctx, at.Target(), http.MethodPost, path, 0, bytes.NewReader(body), &answer)
	r.Must(err)
	if status != http.StatusCreated {
		r.Fatalf("put a voucher on sale: %w", &statusError{path, status, answer.Code, answer.Detail})
	}
	return answer.ID
}

// awaitVoucher waits until an instance sells the voucher.
func (sale *Sale) awaitVoucher(at *Instance) {
	path := "/api/v1/vouchers/" + strconv.FormatInt(sale.Voucher, 10)
	sale.run.Until(at.Name+" sells the voucher", func() bool {
		var answer struct{}
		status, err := sale.run.env.client.Do(sale.run.ctx, at.Target(), http.MethodGet, path, 0, nil, &answer)
		sale.run.Must(err)
		return status == http.StatusOK
	})
}

// Key is the key of the lock under which a user orders.
func (sale *Sale) Key(user int64) string {
	id := strconv.FormatInt(sale.Voucher, 10)
	if sale.Policy.Scope == voucher.ScopeVoucher {
		return "stock:" + id
	}
	return "order:" + id + ":" + strconv.FormatInt(user, 10)
}

// Buy orders for a user at an API process, and returns when it has answered or ctx has ended.
func (sale *Sale) Buy(ctx context.Context, at *Instance, user int64) load.Answer {
	a := sale.run.env.client.Buy(ctx, at.Target(), sale.Voucher, user)
	sale.mu.Lock()
	defer sale.mu.Unlock()
	sale.answers = append(sale.answers, a)
	return a
}

// StartBuy orders for a user at an API process. The returned function waits for the answer. The end of the experiment
// cancels the request.
func (sale *Sale) StartBuy(at *Instance, user int64) (wait func() load.Answer) {
	var a load.Answer
	done := sale.run.Go(func() { a = sale.Buy(sale.run.ctx, at, user) })
	return func() load.Answer {
		done()
		return a
	}
}

// SendLoad sends a load to the API processes and returns when all requests are answered. The load's default seed and
// duration are those of the options.
func (sale *Sale) SendLoad(l load.Load) *load.Outcome { return sale.StartLoad(l)() }

// StartLoad starts a load as [Sale.SendLoad] does. The returned function waits for its end.
func (sale *Sale) StartLoad(l load.Load) (wait func() *load.Outcome) {
	r := sale.run
	if l.Seed == 0 {
		l.Seed = r.Seed()
	}
	if l.Duration == 0 {
		l.Duration = r.Duration()
	}
	targets := make([]load.Target, len(sale.instances))
	for i, at := range sale.instances {
		targets[i] = at.Target()
	}
	var outcome *load.Outcome
	done := r.Go(func() {
		var err error
		outcome, err = r.env.client.Send(r.ctx, targets, sale.Voucher, l)
		r.Must(err)
		sale.mu.Lock()
		defer sale.mu.Unlock()
		sale.answers = append(sale.answers, outcome.All...)
	})
	return func() *load.Outcome {
		done()
		return outcome
	}
}

// Observe samples keys of the sale in the lock store until the experiment ends. Without keys it samples the key of the
// first user, which all users share if the scope is the voucher.
func (sale *Sale) Observe(keys ...string) *Observer {
	if len(keys) == 0 {
		keys = []string{sale.Key(1)}
	}
	r, mechanism := sale.run, sale.Policy.Lock
	var o *Observer
	switch {
	case lock.StoreOf(mechanism) == lock.InProcess:
		o = r.Observe(nil)
	case !r.RealServers() && len(sale.instances) > 0:
		o = r.Observe(apiInspector{r.env.client, sale.instances[0].Target(), mechanism}, keys...)
	default:
		o = r.Observe(r.Inspector(mechanism), keys...)
	}
	sale.AddObserver(o)
	return o
}

// AddObserver adds an observer's samples to the evidence.
func (sale *Sale) AddObserver(o *Observer) {
	sale.mu.Lock()
	defer sale.mu.Unlock()
	sale.observers = append(sale.observers, o)
}

// AddEvents adds another source of events to the evidence, such as a lock client. The function is called repeatedly and
// returns all of its events each time.
func (sale *Sale) AddEvents(events func() []eventlog.Event) {
	sale.mu.Lock()
	defer sale.mu.Unlock()
	sale.sources = append(sale.sources, events)
}

func (sale *Sale) addInstance(i *Instance) {
	sale.AddEvents(func() []eventlog.Event {
		events, err := i.Events()
		sale.run.Must(err)
		return events
	})
}

// Events returns the events of the sale up to now: those about its voucher and about the observed keys.
func (sale *Sale) Events() []eventlog.Event {
	sale.mu.Lock()
	sources, keys := slices.Clone(sale.sources), sale.keys()
	sale.mu.Unlock()
	var events []eventlog.Event
	for _, source := range sources {
		for _, e := range source() {
			if e.Voucher == sale.Voucher || e.Key != "" && (slices.Contains(keys, e.Key) || e.Key == sale.Key(e.User)) {
				events = append(events, e)
			}
		}
	}
	return events
}

// keys returns the observed keys. The mutex is held.
func (sale *Sale) keys() []string {
	var keys []string
	for _, o := range sale.observers {
		keys = append(keys, o.keys...)
	}
	return keys
}

// Await waits until an event matches, which may have been in the past, and returns the first one. what names it in the
// error if there is none.
func (sale *Sale) Await(what string, cond func(eventlog.Event) bool) (found eventlog.Event) {
	sale.run.Until(what, func() bool {
		events := sale.Events()
		i := slices.IndexFunc(events, cond)
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	return found
}

// Evidence is all that is known of the sale now: the events that the processes recorded, the samples of the lock store,
// the answers to the buyers, and the rows of the database.
func (sale *Sale) Evidence() judge.Evidence {
	r := sale.run
	ev := judge.Evidence{LockStore: LockStore(sale.Policy.Lock)}
	sale.mu.Lock()
	observers, answers := slices.Clone(sale.observers), slices.Clone(sale.answers)
	sale.mu.Unlock()
	for _, o := range observers {
		ev.Samples = append(ev.Samples, o.Samples()...)
	}
	ev.End = now()
	ev.Events = sale.Events()
	for _, i := range sale.instances {
		ev.Deaths = append(ev.Deaths, i.deaths()...)
	}
	ev.Faults = r.Faults()
	for _, a := range answers {
		if a.Code == load.Created {
			ev.Acks = append(ev.Acks, judge.Ack{Order: a.Order, User: a.User})
		}
	}
	db := sale.db
	if db == nil && r.RealServers() {
		db = r.DB()
	}
	if db != nil {
		if ev.Database = "MariaDB"; db.Engine() == "sqlite" {
			ev.Database = "SQLite"
		}
		ev.Audit, ev.Rows = sale.readDatabase(db)
		return ev
	}
	ev.Database = "SQLite"
	if i := slices.IndexFunc(sale.instances, (*Instance).Alive); i >= 0 {
		ev.Audit, ev.Rows = sale.readThroughAPI(sale.instances[i], answers)
	}
	return ev
}

// readDatabase reads a database without the API: a process that is dead or paused cannot answer, and a wrong one should
// not be asked.
func (sale *Sale) readDatabase(db *database.DB) (*order.Audit, []order.Order) {
	r := sale.run
	audit, err := db.Orders().Audit(r.ctx, sale.Voucher)
	r.Must(err)
	rows, err := db.Pools()["readers"].QueryContext(r.ctx,
		"SELECT id, voucher_id, user_id, status FROM orders WHERE voucher_id = ? ORDER BY id", sale.Voucher)
	r.Must(err)
	defer rows.Close()
	orders := []order.Order{}
	for rows.Next() {
		var o order.Order
		r.Must(rows.Scan(&o.ID, &o.VoucherID, &o.UserID, &o.Status))
		orders = append(orders, o)
	}
	r.Must(rows.Err())
	return &audit, orders
}

// readThroughAPI asks the API process that owns the embedded database. The API lists orders by user, so it asks for
// every user that tried to buy.
func (sale *Sale) readThroughAPI(at *Instance, answers []load.Answer) (*order.Audit, []order.Order) {
	r := sale.run
	var told struct {
		InitialStock  int64 `json:"initial_stock"`
		Stock         int64 `json:"stock"`
		Orders        int64 `json:"orders"`
		DistinctUsers int64 `json:"distinct_users"`
		Pending       int64 `json:"pending"`
	}
	id := strconv.FormatInt(sale.Voucher, 10)
	sale.get(at, "/api/v1/vouchers/"+id+"/audit", 0, &told)
	orders := []order.Order{}
	asked := map[int64]bool{}
	for _, a := range answers {
		if asked[a.User] {
			continue
		}
		asked[a.User] = true
		var page struct {
			Orders []struct {
				OrderID   int64        `json:"order_id,string"`
				VoucherID int64        `json:"voucher_id,string"`
				Status    order.Status `json:"status"`
			} `json:"orders"`
		}
		sale.get(at, fmt.Sprintf("/api/v1/orders?limit=%d", pageSize), a.User, &page)
		for _, o := range page.Orders {
			if o.VoucherID == sale.Voucher {
				orders = append(orders, order.Order{ID: o.OrderID, VoucherID: o.VoucherID, UserID: a.User, Status: o.Status})
			}
		}
	}
	r.Logf("the embedded database was asked for the orders of %d users", len(asked))
	return &order.Audit{
		InitialStock: told.InitialStock, Stock: told.Stock,
		Orders: told.Orders, DistinctUsers: told.DistinctUsers, Pending: told.Pending,
	}, orders
}

// pageSize is more than one user's orders.
const pageSize = 100

func (sale *Sale) get(at *Instance, path string, user int64, into any) {
	r := sale.run
	ctx, cancel := context.WithTimeout(r.ctx, 10*time.Second)
	defer cancel()
	status, err := r.env.client.Do(ctx, at.Target(), http.MethodGet, path, user, nil, into)
	r.Must(err)
	if status != http.StatusOK {
		r.Fatalf("%w", &statusError{path: path, status: status})
	}
}
