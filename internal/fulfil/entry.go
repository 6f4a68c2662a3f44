package fulfil

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"seckill/internal/admission/admkey"
	"seckill/internal/order"
)

// stream is where the accepted orders of one bucket of a voucher are.
type stream struct {
	voucher int64
	bucket  int
	keys    admkey.Keys
	// tries counts, by entry, what was tried alone. done is the channel on which the
	// orders of the voucher are announced that are final, whatever the bucket.
	tries, done string
}

// place tells a stream from all others.
type place struct {
	voucher int64
	bucket  int
}

func (s *stream) place() place { return place{voucher: s.voucher, bucket: s.bucket} }

func newStream(prefix string, voucherID int64, bucket int) *stream {
	keys := admkey.Of(prefix, voucherID, bucket)
	return &stream{voucher: voucherID, bucket: bucket, keys: keys, tries: keys.Orders + ":tries", done: doneChannel(prefix, voucherID)}
}

// doneChannel is where the orders of a voucher are announced that are final. A channel
// is of no slot, so that of all buckets is one.
func doneChannel(prefix string, voucherID int64) string {
	return admkey.Of(prefix, voucherID, 0).Meta + ":done"
}

// streamsOf are those of all buckets.
func streamsOf(prefix string, sale order.Sale) []*stream {
	all := make([]*stream, sale.Buckets)
	for bucket := range all {
		all[bucket] = newStream(prefix, sale.VoucherID, bucket)
	}
	return all
}

// entry is one delivery.
type entry struct {
	*stream
	id string
	// order is what the entry says. Where malformed is set, what could be read of it.
	order     order.Accepted
	malformed error
	// gone: the entry was deleted after it was delivered; there is nothing left to do.
	gone bool
	// deliveries is how often it was delivered, where that is known.
	deliveries int64
}

// parse reads an entry. Its place in the sequence and its trace are of no consequence to
// the order, so an entry without them is an order still.
func parse(s *stream, id string, fields map[string]any) entry {
	e := entry{stream: s, id: id, order: order.Accepted{VoucherID: s.voucher, Bucket: s.bucket}}
	if fields == nil {
		e.gone = true
		return e
	}
	var failed [3]error
	e.order.OrderID, failed[0] = number(fields, admkey.EntryOrder)
	e.order.UserID, failed[1] = number(fields, admkey.EntryUser)
	e.order.Epoch, failed[2] = number(fields, admkey.EntryEpoch)
	e.malformed = errors.Join(failed[:]...)
	if seq, err := number(fields, admkey.EntrySeq); err == nil {
		e.order.Seq = seq
	}
	e.order.Trace, _ = fields[admkey.EntryTrace].(string)
	e.order.At = time.UnixMilli(idTime(id)).UTC()
	return e
}

// number reads a field that is a positive number.
func number(fields map[string]any, name string) (int64, error) {
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

// idTime is when an entry was added, in ms of the server's clock, which an entry's id
// begins with.
func idTime(id string) int64 {
	ms, _, _ := strings.Cut(id, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// byStream parts entries, which are sorted by their streams.
func byStream(entries []entry) (parts [][]entry) {
	for len(entries) > 0 {
		s := entries[0].stream
		end := slices.IndexFunc(entries, func(e entry) bool { return e.stream != s })
		if end < 0 {
			end = len(entries)
		}
		parts, entries = append(parts, entries[:end]), entries[end:]
	}
	return parts
}

func accepted(entries []entry) []order.Accepted {
	orders := make([]order.Accepted, len(entries))
	for i := range entries {
		orders[i] = entries[i].order
	}
	return orders
}
