package stage

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

	"seckill/internal/lab/load"
	"seckill/internal/lock"
	"seckill/internal/trace"
	"seckill/internal/voucher"
)

// Sale is a voucher on sale.
type Sale struct {
	Voucher int64 // its id
	Policy  voucher.Policy
	stage   *Stage
	on      []*Instance

	mu        sync.Mutex
	answers   []load.Answer
	observers []*Observer
	sources   []func() []trace.Event
}

// Sale puts a voucher on sale, from now on, at API processes. Without any it is written
// to the shared database, for actors. Faults with a probability strike whom the seed of
// the options says, unless the policy has a seed of its own.
func (s *Stage) Sale(policy voucher.Policy, stock int64, on []*Instance) *Sale {
	byChance := func(f lock.Fault) bool { return f.Probability > 0 && f.Probability < 1 }
	if policy.FaultSeed == 0 && slices.ContainsFunc(policy.Faults, byChance) {
		policy.FaultSeed = s.Seed()
	}
	v := voucher.Voucher{
		Title: s.name, Stock: stock, InitialStock: stock, Policy: policy,
		BeginAt: time.Now().Add(-time.Minute).UTC(), EndAt: time.Now().Add(time.Hour).UTC(), CreatedAt: time.Now().UTC(),
	}
	sale := &Sale{Policy: policy, stage: s, on: on}
	if len(on) == 0 {
		v.ID = s.house.nextID()
		s.must(v.Validate())
		s.must(s.DB().Vouchers().CreateVoucher(s.ctx, &v))
		sale.Voucher = v.ID
		return sale
	}
	sale.Voucher = s.create(on[0], v)
	for _, i := range on {
		sale.source(i)
		sale.awaitOffer(i)
	}
	return sale
}

// statusError is an answer of the API that is not the one hoped for.
type statusError struct {
	path         string
	status       int
	code, detail string
}

// Error implements error.
func (e *statusError) Error() string {
	return fmt.Sprintf("%s: status %d, %s %s", e.path, e.status, e.code, e.detail)
}

func (s *Stage) create(at *Instance, v voucher.Voucher) (id int64) {
	body, err := json.Marshal(map[string]any{
		"title": v.Title, "stock": v.InitialStock, "begin_at": v.BeginAt, "end_at": v.EndAt, "policy": v.Policy,
	})
	s.must(err)
	var answer struct {
		ID           int64 `json:"id,string"`
		Code, Detail string
	}
	const path = "/api/v1/vouchers"
	status, err := s.house.client.Do(s.ctx, at.Target(), http.MethodPost, path, 0, bytes.NewReader(body), &answer)
	s.must(err)
	if status != http.StatusCreated {
		s.Fatalf("put a voucher on sale: %w", &statusError{path, status, answer.Code, answer.Detail})
	}
	return answer.ID
}

// awaitOffer waits until an instance knows the voucher.
func (sale *Sale) awaitOffer(at *Instance) {
	path := "/api/v1/vouchers/" + strconv.FormatInt(sale.Voucher, 10)
	sale.stage.Until(at.Name+" sells the voucher", func() bool {
		var answer struct{}
		status, err := sale.stage.house.client.Do(sale.stage.ctx, at.Target(), http.MethodGet, path, 0, nil, &answer)
		sale.stage.must(err)
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

// Buy orders for a user at an API process, and returns when that has answered or ctx
// has ended.
func (sale *Sale) Buy(ctx context.Context, at *Instance, user int64) load.Answer {
	a := sale.stage.house.client.Buy(ctx, at.Target(), sale.Voucher, user)
	sale.mu.Lock()
	defer sale.mu.Unlock()
	sale.answers = append(sale.answers, a)
	return a
}

// StartBuy orders for a user at an API process. The function returned waits for the
// answer. At the end of the experiment nobody waits for it any more.
func (sale *Sale) StartBuy(at *Instance, user int64) (wait func() load.Answer) {
	var a load.Answer
	done := sale.stage.Go(func() { a = sale.Buy(sale.stage.ctx, at, user) })
	return func() load.Answer {
		done()
		return a
	}
}

// Rush sends a load to the API processes and returns when all is answered. Where the
// load does not say, its seed and for how long buyers come are those of the options.
func (sale *Sale) Rush(l load.Load) *load.Outcome { return sale.Start(l)() }

// Start begins a [Sale.Rush]. The function returned waits for its end.
func (sale *Sale) Start(l load.Load) (wait func() *load.Outcome) {
	s := sale.stage
	if l.Seed == 0 {
		l.Seed = s.Seed()
	}
	if l.For == 0 {
		l.For = s.Duration()
	}
	targets := make([]load.Target, len(sale.on))
	for i, at := range sale.on {
		targets[i] = at.Target()
	}
	var outcome *load.Outcome
	done := s.Go(func() {
		var err error
		outcome, err = s.house.client.Run(s.ctx, targets, sale.Voucher, l)
		s.must(err)
		sale.mu.Lock()
		defer sale.mu.Unlock()
		sale.answers = append(sale.answers, outcome.All...)
	})
	return func() *load.Outcome {
		done()
		return outcome
	}
}

// Observe watches keys of the sale in the lock's store, until the experiment ends; none:
// that of the first user, which is everybody's where the scope is the voucher.
func (sale *Sale) Observe(keys ...string) *Observer {
	if len(keys) == 0 {
		keys = []string{sale.Key(1)}
	}
	s, mechanism := sale.stage, sale.Policy.Lock
	var o *Observer
	switch {
	case familyOf(mechanism) == inProcess:
		o = s.Observe(nil)
	case !s.Real() && len(sale.on) > 0:
		o = s.Observe(remote{s.house.client, sale.on[0].Target(), mechanism}, keys...)
	default:
		o = s.Observe(s.Inspector(mechanism), keys...)
	}
	sale.Watch(o)
	return o
}

// Watch makes what an observer sees part of the evidence.
func (sale *Sale) Watch(o *Observer) {
	sale.mu.Lock()
	defer sale.mu.Unlock()
	sale.observers = append(sale.observers, o)
}

// Listen makes somebody else's events part of the evidence, such as an actor's: it is
// called again and again, and gives all of them each time.
func (sale *Sale) Listen(events func() []trace.Event) {
	sale.mu.Lock()
	defer sale.mu.Unlock()
	sale.sources = append(sale.sources, events)
}

func (sale *Sale) source(i *Instance) {
	sale.Listen(func() []trace.Event {
		events, err := i.Events()
		sale.stage.must(err)
		return events
	})
}

// Events are those of the sale up to now: of its voucher and of the keys that are
// observed.
func (sale *Sale) Events() []trace.Event {
	sale.mu.Lock()
	sources, keys := slices.Clone(sale.sources), sale.keys()
	sale.mu.Unlock()
	var events []trace.Event
	for _, source := range sources {
		for _, e := range source() {
			if e.Voucher == sale.Voucher || e.Key != "" && (slices.Contains(keys, e.Key) || e.Key == sale.Key(e.User)) {
				events = append(events, e)
			}
		}
	}
	return events
}

// keys are those that are observed. The mutex is held.
func (sale *Sale) keys() []string {
	var keys []string
	for _, o := range sale.observers {
		keys = append(keys, o.keys...)
	}
	return keys
}

// Await waits until something has happened in the sale, which may be over by then, and
// returns the first such event. What is awaited is said where it does not happen.
func (sale *Sale) Await(what string, cond func(trace.Event) bool) (found trace.Event) {
	sale.stage.Until(what, func() bool {
		events := sale.Events()
		i := slices.IndexFunc(events, cond)
		if i >= 0 {
			found = events[i]
		}
		return i >= 0
	})
	return found
}
