package sandbox

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	provider "seckill/internal/payment"
)

// payment is a payment with what the provider keeps beside it.
type payment struct {
	provider.Payment
	Key     string    `json:"key"`
	Created time.Time `json:"created_at"`
	// ArrivesAt is when money that is on its way arrives.
	ArrivesAt time.Time `json:"arrives_at,omitzero"`
	// ReturnURL is the page to which the buyer goes back; that of the first call with the key.
	ReturnURL string   `json:"return_url,omitempty"`
	Refunds   []refund `json:"refunds,omitempty"`
}

// refund is a refund and the idempotency key under which it was asked for.
type refund struct {
	provider.Refund
	Key string `json:"key"`
}

// event is something to be told to the receiver of webhooks.
type event struct {
	ID      string          `json:"id"`
	Body    json.RawMessage `json:"body"`
	Created time.Time       `json:"created_at"`
	Due     time.Time       `json:"due"`
	// Attempts counts the deliveries that failed since the last that was accepted, Repeat those that are still to
	// follow it.
	Attempts int  `json:"attempts"`
	Repeat   int  `json:"repeat"`
	Over     bool `json:"over"` // delivered, lost or given up

	delivering bool
}

// The refusals of the books.
var (
	errUnknown   = errors.New("sandbox: no such payment")
	errKeyReused = errors.New("sandbox: the idempotency key belongs to another request")
	errTooMuch   = errors.New("sandbox: more than what was paid and not refunded yet")
)

// books are all payments and the events that are yet to be delivered. Every change is in the journal before it is in
// memory.
type books struct {
	now     func() time.Time
	pageURL func(id string) string
	changed chan struct{} // has an element after a change

	mu        sync.Mutex
	journal   *journal
	behaviour Behaviour
	payments  map[string]*payment
	byKey     map[string]*payment
	order     []string            // ids, oldest first
	unsettled map[string]*payment // those that time alone changes
	events    map[string]*event
}

func openBooks(path string, now func() time.Time, pageURL func(string) string, behaviour Behaviour) (*books, error) {
	b := &books{
		now: now, pageURL: pageURL, changed: make(chan struct{}, 1), behaviour: behaviour,
		payments: map[string]*payment{}, byKey: map[string]*payment{}, unsettled: map[string]*payment{}, events: map[string]*event{},
	}
	var err error
	b.journal, err = openJournal(path, b.apply)
	return b, err
}

// apply takes a record over into memory.
func (b *books) apply(rec record) {
	if p := rec.Payment; p != nil {
		if _, known := b.payments[p.ID]; !known {
			b.order = append(b.order, p.ID)
		}
		b.payments[p.ID], b.byKey[p.Key] = p, p
		if p.Final() {
			delete(b.unsettled, p.ID)
		} else {
			b.unsettled[p.ID] = p
		}
	}
	if e := rec.Event; e != nil {
		b.events[e.ID] = e
		if e.Over {
			delete(b.events, e.ID)
		}
	}
	if rec.Behaviour != nil {
		b.behaviour = *rec.Behaviour
	}
}

// write appends records to the journal and applies them.
func (b *books) write(records ...record) error {
	if err := b.journal.append(records...); err != nil {
		return err
	}
	for _, rec := range records {
		b.apply(rec)
	}
	b.wake()
	return nil
}

// wake makes the deliverer look at what is due.
func (b *books) wake() {
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

// change stores a payment's new state with the event that tells of it.
func (b *books) change(p payment, kind string) error {
	now := b.now()
	body, err := json.Marshal(provider.Event{Type: kind, Timestamp: now.UTC(), Data: p.Payment})
	if err != nil {
		return err
	}
	e := event{
		ID: "msg_" + rand.Text(), Body: body, Created: now, Due: b.behaviour.due(now), Repeat: b.behaviour.Duplicate,
		Over: mathrand.Float64() < b.behaviour.Lose,
	}
	return b.write(record{Payment: &p}, record{Event: &e})
}

// create creates a payment, or returns the one that has the key.
func (b *books) create(key string, req provider.CreatePayment) (payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if old := b.byKey[key]; old != nil {
		if old.Reference != req.Reference || old.AmountCents != req.AmountCents || old.Currency != req.Currency || !old.ExpiresAt.Equal(req.ExpiresAt) {
			return payment{}, errKeyReused
		}
		return b.current(old.ID)
	}
	id := "pay_" + rand.Text()
	p := &payment{Key: key, Created: b.now(), ReturnURL: req.ReturnURL, Payment: provider.Payment{
		ID: id, Reference: req.Reference, AmountCents: req.AmountCents, Currency: req.Currency,
		Status: provider.StatusOpen, PayURL: b.pageURL(id), ExpiresAt: req.ExpiresAt,
	}}
	return *p, b.write(record{Payment: p})
}

// payment returns a payment as it is now.
func (b *books) payment(id string) (payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current(id)
}

func (b *books) current(id string) (payment, error) {
	p := b.payments[id]
	if p == nil {
		return payment{}, errUnknown
	}
	if err := b.settle(p); err != nil {
		return payment{}, err
	}
	return *b.payments[id], nil
}

// settle makes the changes that time alone brings.
func (b *books) settle(p *payment) error {
	now := b.now()
	switch {
	case p.Status == provider.StatusProcessing && !now.Before(p.ArrivesAt):
		return b.paid(*p, p.ArrivesAt)
	case p.undecided() && !now.Before(p.ExpiresAt):
		expired := *p
		expired.Status = provider.StatusExpired
		return b.change(expired, provider.EventExpired)
	}
	return nil
}

func (b *books) paid(p payment, at time.Time) error {
	at = at.UTC()
	p.Status, p.PaidAt, p.ArrivesAt = provider.StatusPaid, &at, time.Time{}
	return b.change(p, provider.EventPaid)
}

// settleAll settles every payment, and returns when the next change is due; zero if none is.
func (b *books) settleAll() (next time.Time, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, p := range b.unsettled {
		due := p.ExpiresAt
		if p.Status == provider.StatusProcessing {
			due = p.ArrivesAt
		}
		if !b.now().Before(due) {
			if err := b.settle(p); err != nil {
				return next, err
			}
			continue
		}
		if next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next, nil
}

// undecided reports whether the buyer may pay: whoever has refused, or was refused, may try again.
func (p *payment) undecided() bool {
	return p.Status == provider.StatusOpen || p.Status == provider.StatusRefused
}

// decide is the buyer's decision on the payment page. Once it is to pay, it counts.
func (b *books) decide(id string, pay bool) (payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.current(id)
	if err != nil || !p.undecided() || !pay && p.Status == provider.StatusRefused {
		return p, err
	}
	switch late := milliseconds(b.behaviour.PayLateMS); {
	case !pay:
		p.Status = provider.StatusRefused
		err = b.change(p, provider.EventRefused)
	case late > 0:
		p.Status, p.ArrivesAt = provider.StatusProcessing, b.now().Add(late)
		err = b.write(record{Payment: &p})
	default:
		err = b.paid(p, b.now())
	}
	if err != nil {
		return payment{}, err
	}
	return *b.payments[id], nil
}

// refund gives money back, or returns what was given back under the key.
func (b *books) refund(key, id string, req provider.CreateRefund) (refund, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, err := b.current(id)
	if err != nil {
		return refund{}, err
	}
	if i := slices.IndexFunc(p.Refunds, func(r refund) bool { return r.Key == key }); i >= 0 {
		if old := p.Refunds[i]; old.AmountCents == req.AmountCents && old.Currency == req.Currency {
			return old, nil
		}
		return refund{}, errKeyReused
	}
	if p.Status != provider.StatusPaid || req.Currency != p.Currency || req.AmountCents > p.AmountCents-p.RefundedCents {
		return refund{}, errTooMuch
	}
	r := refund{Key: key, Refund: provider.Refund{
		ID: "ref_" + rand.Text(), PaymentID: id, AmountCents: req.AmountCents, Currency: req.Currency,
	}}
	p.Refunds = append(slices.Clip(p.Refunds), r)
	p.RefundedCents += r.AmountCents
	err = b.change(p, provider.EventRefunded)
	return r, err
}

// under returns the payment that was created under a key, in a list that may be empty.
func (b *books) under(key string) ([]payment, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.byKey[key]
	if p == nil {
		return nil, nil
	}
	now, err := b.current(p.ID)
	return []payment{now}, err
}

// list returns up to limit payments from the n-th on, oldest first.
func (b *books) list(n, limit int) []payment {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, len(b.order))
	page := b.order[n:min(n+limit, len(b.order))]
	out := make([]payment, len(page))
	for i, id := range page {
		out[i] = *b.payments[id]
	}
	return out
}

func (b *books) setBehaviour(to Behaviour) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.write(record{Behaviour: &to})
}

func (b *books) getBehaviour() Behaviour {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.behaviour
}

func (b *books) close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.journal.close()
}
