package ledger

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/order"
)

// The fields of an entry of Orders. The entry's id begins with the time of acceptance, in ms of Redis' clock. An entry
// with several orders has neither EntryOrder nor EntryUser: each of its other fields is a user's id and holds the
// user's order. admit.lua and split.lua write entries.
const (
	EntryOrder = "o" // the order, as in Users: see [Reserved]
	EntryUser  = "u" // the user's id
	EntryEpoch = "e" // the epoch it was accepted under
	EntrySeq   = "s" // seq after the call that accepted it
	EntryTrace = "p" // the traceparent of the call that accepted it; absent without tracing
	EntryAt    = "t" // the time of acceptance, where the entry was split off another one
)

// The further fields of an entry of Dead. dead_letter.lua writes them.
const (
	DeadReason = "reason"
	DeadDetail = "detail" // the reason in a sentence
	DeadFrom   = "from"   // the id of the entry of Orders
)

// DefaultOrdersPerEntry is how many orders an entry has at most, unless configured otherwise. Longer entries would save
// little, and several consumers could not share what one call has accepted.
const DefaultOrdersPerEntry = 64

// MaxNumber bounds epochs and sequence numbers, which count from 0. Lua's numbers are exact up to twice as much, so
// counting on from any number in bounds stays exact.
const MaxNumber = 1 << 52

// Entry is an order of an entry of Orders.
type Entry struct {
	// Order has no voucher and no bucket: they are not in the entry.
	Order contract.Accepted
	// Err says that the order, or the whole entry, is malformed. Order then holds what could be read.
	Err error
}

// ParseEntry reads an entry of Orders, and returns its orders sorted by id. An entry that is malformed as a whole
// counts as one order. An order without a sequence number or a trace is still an order.
func ParseEntry(id string, fields map[string]any) []Entry {
	common := contract.Accepted{At: entryTime(id, fields)}
	var epochErr error
	common.Epoch, epochErr = positive(fields, EntryEpoch)
	if seq, err := positive(fields, EntrySeq); err == nil {
		common.Seq = seq
	}
	if common.Epoch > MaxNumber || common.Seq > MaxNumber {
		epochErr = fmt.Errorf("epoch %d or sequence number %d is above %d", common.Epoch, common.Seq, int64(MaxNumber))
	}
	common.Trace, _ = fields[EntryTrace].(string)

	if orders := severalOrders(fields); len(orders) > 0 {
		for i := range orders {
			a := &orders[i].Order
			a.Epoch, a.Seq, a.Trace, a.At = common.Epoch, common.Seq, common.Trace, common.At
			orders[i].Err = errors.Join(orders[i].Err, epochErr)
		}
		return orders
	}
	var orderErr, userErr error
	common.OrderID, common.Key, common.Late, orderErr = parseOrder(fields[EntryOrder])
	common.UserID, userErr = positive(fields, EntryUser)
	return []Entry{{Order: common, Err: errors.Join(orderErr, userErr, epochErr)}}
}

// severalOrders returns the orders of an entry that has several; nil of an entry with one.
func severalOrders(fields map[string]any) []Entry {
	_, hasOrder := fields[EntryOrder]
	_, hasUser := fields[EntryUser]
	if hasOrder || hasUser {
		return nil
	}
	orders := make([]Entry, 0, len(fields))
	for name, value := range fields {
		if name == EntryEpoch || name == EntrySeq || name == EntryTrace || name == EntryAt {
			continue
		}
		var e Entry
		var orderErr, userErr error
		e.Order.OrderID, e.Order.Key, e.Order.Late, orderErr = parseOrder(value)
		e.Order.UserID, userErr = parsePositive(name, "user "+strconv.Quote(name))
		e.Err = errors.Join(orderErr, userErr)
		orders = append(orders, e)
	}
	slices.SortFunc(orders, func(a, b Entry) int { return cmp.Compare(a.Order.OrderID, b.Order.OrderID) })
	return orders
}

// parseOrder parses what an entry holds of an order.
func parseOrder(value any) (id int64, key order.KeyHash, late bool, err error) {
	text, _ := value.(string)
	if id, key, err = ParseReserved(text); err != nil {
		return 0, 0, false, fmt.Errorf("the order: %w", err)
	}
	return id, key, IsLate(text), nil
}

const (
	// keySeparator separates an order from its key.
	keySeparator = ":"
	// keyBytes is the size of a key.
	keyBytes = 8
)

// Reserved is what the hash of users holds for a user: the id of the user's order or, if the order has an idempotency
// key, the id, a colon and the key in 11 characters of base64.
func Reserved(id int64, key order.KeyHash) string {
	text := strconv.FormatInt(id, 10)
	if key == 0 {
		return text
	}
	var raw [keyBytes]byte
	binary.BigEndian.PutUint64(raw[:], uint64(key))
	return text + keySeparator + base64.RawURLEncoding.EncodeToString(raw[:])
}

// lateMark precedes an order that takes a unit again, for late money. It tells this reservation from the order's first
// one: a return of the first may still be on its way, and must not remove the second. The mark is a zero, so a reader
// that only wants the number need not know of it.
const lateMark = "0"

// ReservedLate is [Reserved] for an order that takes a unit again.
func ReservedLate(id int64, key order.KeyHash) string { return lateMark + Reserved(id, key) }

// IsLate reports whether a text was made by [ReservedLate], and not by [Reserved].
func IsLate(text string) bool { return strings.HasPrefix(text, lateMark) }

// reservedAs is Reserved or ReservedLate.
func reservedAs(late bool, id int64, key order.KeyHash) string {
	if late {
		return ReservedLate(id, key)
	}
	return Reserved(id, key)
}

// ParseReserved is the reverse of [Reserved] and [ReservedLate].
func ParseReserved(text string) (id int64, key order.KeyHash, err error) {
	number, encoded, keyed := strings.Cut(text, keySeparator)
	if id, err = strconv.ParseInt(number, 10, 64); err != nil {
		return 0, 0, err
	}
	if id < 1 {
		return 0, 0, fmt.Errorf("the order is %d", id)
	}
	if !keyed {
		return id, 0, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil || len(raw) != keyBytes {
		return 0, 0, fmt.Errorf("%q is no key of an order", encoded)
	}
	return id, order.KeyHash(binary.BigEndian.Uint64(raw)), nil
}

// positive parses a field that is a positive number.
func positive(fields map[string]any, name string) (int64, error) {
	text, _ := fields[name].(string)
	return parsePositive(text, "field "+name)
}

func parsePositive(text, what string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	if n < 1 {
		return 0, fmt.Errorf("%s is %d", what, n)
	}
	return n, nil
}

// EntryTime returns when an entry was added, by the server's clock: an entry's id begins with the time in ms. It is the
// epoch of Unix where the id has no time.
func EntryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		n = 0
	}
	return time.UnixMilli(n).UTC()
}

// entryTime returns when the orders of an entry were accepted.
func entryTime(id string, fields map[string]any) time.Time {
	if at, split := fields[EntryAt].(string); split {
		return EntryTime(at)
	}
	return EntryTime(id)
}

// DeadLetter is an entry of Dead. The fields of the original entry are as they were: they may be anything where the
// entry was malformed, and "" where they are missing.
type DeadLetter struct {
	OrderID, UserID string
	Reason, Detail  string
	At              time.Time // when it was moved to the dead letters
}

// ParseDeadLetter reads an entry of Dead.
func ParseDeadLetter(id string, fields map[string]any) DeadLetter {
	text := func(name string) string {
		s, _ := fields[name].(string)
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	number, _, _ := strings.Cut(text(EntryOrder), keySeparator)
	return DeadLetter{
		OrderID: strings.TrimPrefix(number, lateMark), UserID: text(EntryUser),
		Reason: text(DeadReason), Detail: text(DeadDetail), At: EntryTime(id),
	}
}
