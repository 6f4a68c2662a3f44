package ledger

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"seckill/internal/order"
)

// The fields of an entry of Orders. The entry's id begins with the time of acceptance, in ms
// of Redis' clock. admit.lua writes entries.
const (
	EntryOrder = "o" // the order, as in Users: see [Reserved]
	EntryUser  = "u" // the user's id
	EntryEpoch = "e" // the epoch it was accepted under
	EntrySeq   = "s" // seq after the call that accepted it
	EntryTrace = "p" // the traceparent of the call that accepted it; absent without tracing
)

// The further fields of an entry of Dead. dead_letter.lua writes them.
const (
	DeadReason = "reason"
	DeadDetail = "detail" // the reason in a sentence
	DeadFrom   = "from"   // the id of the entry of Orders
)

// ParseEntry reads an entry of Orders. The voucher and the bucket of the order are not in
// the entry. With an error the entry is malformed, and the order holds what could be read.
// An entry without a sequence number or a trace is still an order.
func ParseEntry(id string, fields map[string]any) (order.Accepted, error) {
	var a order.Accepted
	var failed [3]error
	a.OrderID, a.Key, failed[0] = parseOrder(fields)
	a.UserID, failed[1] = positive(fields, EntryUser)
	a.Epoch, failed[2] = positive(fields, EntryEpoch)
	if seq, err := positive(fields, EntrySeq); err == nil {
		a.Seq = seq
	}
	a.Trace, _ = fields[EntryTrace].(string)
	a.At = EntryTime(id)
	return a, errors.Join(failed[:]...)
}

// parseOrder reads the field [EntryOrder].
func parseOrder(fields map[string]any) (id int64, key order.KeyHash, err error) {
	text, _ := fields[EntryOrder].(string)
	if id, key, err = ParseReserved(text); err != nil {
		return 0, 0, fmt.Errorf("field %s: %w", EntryOrder, err)
	}
	return id, key, nil
}

const (
	// keySeparator is between an order and its key.
	keySeparator = ":"
	// keyBytes is the size of a key.
	keyBytes = 8
)

// Reserved is what the hash of users holds for a user: the id of the user's order or, if the order has an
// idempotency key, the id, a colon and the key in 11 characters of base64.
func Reserved(id int64, key order.KeyHash) string {
	text := strconv.FormatInt(id, 10)
	if key == 0 {
		return text
	}
	var raw [keyBytes]byte
	binary.BigEndian.PutUint64(raw[:], uint64(key))
	return text + keySeparator + base64.RawURLEncoding.EncodeToString(raw[:])
}

// ParseReserved is the reverse of [Reserved].
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

// positive reads a field that is a positive number.
func positive(fields map[string]any, name string) (int64, error) {
	text, _ := fields[name].(string)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("field %s: %w", name, err)
	}
	if n < 1 {
		return 0, fmt.Errorf("field %s is %d", name, n)
	}
	return n, nil
}

// EntryTime returns when an entry was added, by the server's clock: an entry's id begins
// with the time in ms. It is the epoch of Unix where the id has no time.
func EntryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		n = 0
	}
	return time.UnixMilli(n).UTC()
}

// DeadLetter is an entry of Dead. The fields of the original entry are as they were: they may
// be anything where the entry was malformed, and "" where they are missing.
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
		OrderID: number, UserID: text(EntryUser),
		Reason: text(DeadReason), Detail: text(DeadDetail), At: EntryTime(id),
	}
}
