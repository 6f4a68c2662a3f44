package ledger

import (
	"context"
	_ "embed" // the script
	"errors"
	"strconv"
	"strings"

	"seckill/internal/order"
	"seckill/internal/redisscript"
)

//go:embed admit.lua
var admitSource string

// Batch is a batch of orders for admit.lua.
type Batch struct {
	Keys Keys
	// Known is what the caller has seen of the bucket.
	Known Known
	// MaxPending is how many orders of the bucket may be pending.
	MaxPending int64
	// PerEntry is how many of the orders that are accepted one entry of the stream may have, from 1. Default
	// [DefaultOrdersPerEntry].
	PerEntry int
	// Expiry is when the call must not act any more, in ms of the server's clock.
	Expiry int64
	// Traceparent is kept with each order that is accepted; "" for none.
	Traceparent string

	args []any
}

// Known is what a process has seen of a bucket in an epoch. It stays true unless Redis loses data.
type Known struct {
	Epoch, Seq, Returned int64
	// User, Order and Key are the last order that was seen accepted; 0 for none. Late says that it took a unit again.
	User, Order int64
	Key         order.KeyHash
	Late        bool
}

// pairs is the index of ARGV[10] in the whole command: three keys and nine arguments come before it.
const pairs = redisscript.FirstKey + 3 + 9

// NewBatch returns a batch with room for n orders.
func NewBatch(n int) *Batch {
	return &Batch{PerEntry: DefaultOrdersPerEntry, args: make([]any, pairs, pairs+2*n)}
}

// Add adds an order. The pointers must stay valid until the batch is decided: a pointer fits into an any without an
// allocation.
func (b *Batch) Add(userID, orderID *int64, key order.KeyHash) {
	if key == 0 {
		b.args = append(b.args, userID, orderID)
		return
	}
	b.args = append(b.args, userID, Reserved(*orderID, key))
}

// AddLate adds an order that takes a unit again, for late money. The sale's window does not concern it.
func (b *Batch) AddLate(userID *int64, orderID int64, key order.KeyHash) {
	b.args = append(b.args, userID, ReservedLate(orderID, key))
}

// Len is how many orders there are.
func (b *Batch) Len() int { return (len(b.args) - pairs) / 2 }

// Verdict is what a script says about a whole call.
type Verdict int64

// The verdicts.
const (
	// Decided: the script has acted.
	Decided Verdict = iota
	// Closed: the bucket is not open under the epoch of the call. Nothing was done.
	Closed
	// DataLost: the caller has seen more than Redis has. Nothing was done.
	DataLost
	// Late: the call arrived after its expiry. Nothing was done.
	Late
	// Torn: a script that changed the bucket stopped in its middle. Nothing was done; the bucket is to be rebuilt.
	Torn
)

// Decision is the reply of admit.lua.
type Decision struct {
	Verdict Verdict
	// Now is the server's clock, in ms.
	Now int64
	// Seq, Stock and Returned are the bucket's fields after the call.
	Seq, Stock, Returned int64
	// Outcomes has one [Outcome] for each order of the batch.
	Outcomes string
	// Earlier has the id of the user's order for each [RepeatedUnderKey], in the order of the batch.
	Earlier []int64
}

// Outcome is what admit.lua decided about an order.
type Outcome = byte

// The outcomes.
const (
	Accepted Outcome = 'a'
	Repeated Outcome = 'r' // this order was accepted before
	// RepeatedUnderKey: an order with the same key and another id was accepted before.
	RepeatedUnderKey Outcome = 'k'
	AlreadyOrdered   Outcome = 'o' // the user has another order
	NotStarted       Outcome = 'b'
	Ended            Outcome = 'e'
	Paused           Outcome = 'p'
	SoldOut          Outcome = 's'
	Overloaded       Outcome = 'w' // too many orders are pending
)

// HasOrder reports whether the decision tells a user that the user has an order. Only such a decision must survive a
// failover. A refusal that is lost with it does no harm: the user has nothing, and may ask again.
func (d *Decision) HasOrder() bool {
	return strings.ContainsAny(d.Outcomes, string([]byte{Accepted, Repeated, RepeatedUnderKey}))
}

// Admit decides about a batch. With [ErrUnacknowledged] it returns the decision too, but fewer replicas than required
// have acknowledged it.
func (l *Ledger) Admit(ctx context.Context, b *Batch) (Decision, error) {
	user, last := "", ""
	if b.Known.Order != 0 {
		user, last = strconv.FormatInt(b.Known.User, 10), reservedAs(b.Known.Late, b.Known.Order, b.Known.Key)
	}
	copy(b.args[2:], []any{
		3, b.Keys.Meta, b.Keys.Users, b.Keys.Orders,
		b.Known.Epoch, b.Known.Seq, b.Known.Returned, user, last, b.MaxPending, b.Expiry, b.Traceparent, b.PerEntry,
	})
	reply, err := l.runAcknowledged(ctx, l.scripts.admit, b.args)
	if err != nil && !errors.Is(err, ErrUnacknowledged) {
		return Decision{}, err
	}
	n := numbers(reply)
	switch {
	case len(n) == 2 && len(reply) == 2 && Verdict(n[0]) > Decided && Verdict(n[0]) <= Torn:
		return Decision{Verdict: Verdict(n[0]), Now: n[1]}, nil
	case len(n) == 5 && len(reply) == 7 && Verdict(n[0]) == Decided:
		outcomes, _ := reply[5].(string)
		earlier, ok := parseIDs(reply[6])
		if ok && len(outcomes) == b.Len() && len(earlier) == strings.Count(outcomes, string(RepeatedUnderKey)) {
			return Decision{
				Now: n[1], Seq: n[2], Stock: n[3], Returned: n[4], Outcomes: outcomes, Earlier: earlier,
			}, err
		}
	}
	return Decision{}, unexpected(reply)
}

// parseIDs parses ids that are separated by spaces.
func parseIDs(reply any) (ids []int64, ok bool) {
	text, ok := reply.(string)
	for field := range strings.FieldsSeq(text) {
		id, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return nil, false
		}
		ids = append(ids, id)
	}
	return ids, ok
}
