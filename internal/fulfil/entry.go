package fulfil

import (
	"slices"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

// stream is the stream of accepted orders of one bucket of a voucher.
type stream struct {
	voucher int64
	bucket  int
	keys    ledger.Keys
	// finalChannel announces the final orders of the voucher, of all its buckets.
	finalChannel string
}

// streamID identifies a stream.
type streamID struct {
	voucher int64
	bucket  int
}

func (s *stream) id() streamID { return streamID{voucher: s.voucher, bucket: s.bucket} }

func newStream(prefix string, voucherID int64, bucket int) *stream {
	return &stream{
		voucher: voucherID, bucket: bucket,
		keys: ledger.KeysOf(prefix, voucherID, bucket), finalChannel: ledger.FinalChannel(prefix, voucherID),
	}
}

// streamsOf returns the streams of all buckets of a voucher.
func streamsOf(prefix string, v order.AdmissionVoucher) []*stream {
	streams := make([]*stream, v.Buckets)
	for bucket := range streams {
		streams[bucket] = newStream(prefix, v.VoucherID, bucket)
	}
	return streams
}

// entry is one delivery of an entry.
type entry struct {
	*stream
	id string
	// order is the content of the entry; if malformed is set, as much as could be read.
	order     order.Accepted
	malformed error
	// deleted: the entry was deleted after its delivery. It only needs an acknowledgement.
	deleted bool
	// deliveries is the number of deliveries; 0 if it was not counted.
	deliveries int64
}

func parse(s *stream, id string, fields map[string]any) entry {
	e := entry{stream: s, id: id}
	if fields == nil {
		e.deleted = true
	} else {
		e.order, e.malformed = ledger.ParseEntry(id, fields)
	}
	e.order.VoucherID, e.order.Bucket = s.voucher, s.bucket
	return e
}

// parseAll parses the messages of one stream.
func parseAll(s *stream, messages []redis.XMessage) []entry {
	entries := make([]entry, len(messages))
	for i, m := range messages {
		entries[i] = parse(s, m.ID, m.Values)
	}
	return entries
}

// entriesOf parses the reply of XREADGROUP for some streams.
func entriesOf(streams []*stream, reply []redis.XStream) (entries []entry) {
	byKey := make(map[string]*stream, len(streams))
	for _, s := range streams {
		byKey[s.keys.Orders] = s
	}
	for _, found := range reply {
		entries = append(entries, parseAll(byKey[found.Stream], found.Messages)...)
	}
	return entries
}

// byStream splits entries into parts of one stream each. The entries of a stream must be
// adjacent.
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
