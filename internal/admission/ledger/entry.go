package ledger

import (
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
	EntryOrder = "o" // the order's id
	EntryUser  = "u" // the user's id
	EntryEpoch = "e" // the epoch it was accepted under
	EntrySeq   = "s" // the number of its decision
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
	a.OrderID, failed[0] = positive(fields, EntryOrder)
	a.UserID, failed[1] = positive(fields, EntryUser)
	a.Epoch, failed[2] = positive(fields, EntryEpoch)
	if seq, err := positive(fields, EntrySeq); err == nil {
		a.Seq = seq
	}
	a.Trace, _ = fields[EntryTrace].(string)
	a.At = EntryTime(id)
	return a, errors.Join(failed[:]...)
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
	return DeadLetter{
		OrderID: text(EntryOrder), UserID: text(EntryUser),
		Reason: text(DeadReason), Detail: text(DeadDetail), At: EntryTime(id),
	}
}
