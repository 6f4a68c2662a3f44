package fulfil

import (
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
)

// stream is the stream of accepted orders of one bucket of a voucher.
type stream struct {
	voucher int64
	bucket  int
	keys    ledger.Keys
	// finalChannel announces the final orders of the voucher, of all its buckets.
	finalChannel string
	// writtenNew and writtenLate count the orders of this stream that the process has written. Late ones take a unit
	// again, and are written by other statements.
	writtenNew, writtenLate atomic.Int64
	// watched: the workers read the stream. Otherwise it rests; see [watchList]. It is watched until awakeUntil at least.
	// grouped: its group was there. The watchList's mutex guards these.
	watched, grouped bool
	awakeUntil       time.Time
	// looked: its length was measured. The discovery's mutex guards it.
	looked bool
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
func streamsOf(prefix string, v contract.AdmissionVoucher) []*stream {
	streams := make([]*stream, v.Buckets)
	for bucket := range streams {
		streams[bucket] = newStream(prefix, v.VoucherID, bucket)
	}
	return streams
}

// entry is one delivery of an order.
type entry struct {
	stream *stream
	// id is that of the stream's entry. Other orders may have the same one; see group.
	id string
	// order is the content of the entry; if malformed is set, as much as could be read.
	order     contract.Accepted
	malformed error
	// group is what the orders of one delivery of the stream's entry share; nil where it has one order.
	group *group
	// deleted: the entry was deleted after its delivery. It only needs an acknowledgement.
	deleted bool
	// deliveries is the number of deliveries; 0 if it was not counted.
	deliveries int64
}

// entryID identifies an entry of a stream.
type entryID struct {
	stream *stream
	id     string
}

func (e *entry) key() entryID { return entryID{stream: e.stream, id: e.id} }

// written returns the counter of the orders that are like this one: of the same voucher and bucket, and written by the
// same statements. The database may refuse all of them, and take those of other vouchers.
func (e *entry) written() *atomic.Int64 {
	if e.order.Late {
		return &e.stream.writtenLate
	}
	return &e.stream.writtenNew
}

// isNew reports whether the order was delivered for the first time. The database may have any other order already, and
// then its success does not show that the database takes orders.
func (e *entry) isNew() bool { return e.deliveries == 0 && e.order.At.Equal(ledger.EntryTime(e.id)) }

// isSplit reports whether the entry is no longer this delivery's to finish; see group.
func (e entry) isSplit() bool { return e.group != nil && e.group.split }

// group is one delivery of an entry of the stream that has several orders. They are written like any other orders, and
// the entry is acknowledged with the last one. If one of them cannot be written, the entry is split: then each order is
// delivered again, in an entry of its own.
type group struct {
	size int
	// persisted are the orders that are in the database.
	persisted []entry
	// split: the entry is no longer this delivery's to finish.
	split bool
}

func parse(s *stream, id string, fields map[string]any) []entry {
	if fields == nil {
		return []entry{{stream: s, id: id, order: contract.Accepted{VoucherID: s.voucher, Bucket: s.bucket}, deleted: true}}
	}
	orders := ledger.ParseEntry(id, fields)
	entries := make([]entry, len(orders))
	var shared *group
	if len(orders) > 1 {
		shared = &group{size: len(orders)}
	}
	for i, o := range orders {
		entries[i] = entry{stream: s, id: id, order: o.Order, malformed: o.Err, group: shared}
		entries[i].order.VoucherID, entries[i].order.Bucket = s.voucher, s.bucket
	}
	return entries
}

// parseAll parses the messages of one stream.
func parseAll(s *stream, messages []redis.XMessage) []entry {
	entries := make([]entry, 0, len(messages))
	for _, m := range messages {
		entries = append(entries, parse(s, m.ID, m.Values)...)
	}
	return entries
}

// finished takes orders that are in the database, and returns those whose entries of the stream are finished with them:
// all orders of such an entry, next to each other.
func finished(persisted []entry) []entry {
	all := make([]entry, 0, len(persisted))
	for _, e := range persisted {
		if e.group == nil {
			all = append(all, e)
			continue
		}
		if e.group.persisted = append(e.group.persisted, e); len(e.group.persisted) == e.group.size {
			all = append(all, e.group.persisted...)
		}
	}
	return all
}

// byID splits orders into parts that are in the same entry of a stream. They must be adjacent.
func byID(entries []entry) iter.Seq[[]entry] {
	return runs(entries, func(a, b entry) bool { return a.id == b.id && a.stream == b.stream })
}

// byStream splits entries into parts of one stream each. The entries of a stream must be adjacent.
func byStream(entries []entry) [][]entry {
	return slices.Collect(runs(entries, func(a, b entry) bool { return a.stream == b.stream }))
}

// runs splits entries into parts of adjacent ones that are alike.
func runs(entries []entry, alike func(a, b entry) bool) iter.Seq[[]entry] {
	return func(yield func([]entry) bool) {
		for begin, end := 0, 1; begin < len(entries); end++ {
			if end < len(entries) && alike(entries[begin], entries[end]) {
				continue
			}
			if !yield(entries[begin:end]) {
				return
			}
			begin = end
		}
	}
}

// countIDs returns how many entries of streams some orders are in.
func countIDs(entries []entry) (n int) {
	for range byID(entries) {
		n++
	}
	return n
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

// byVoucher splits entries into parts of one voucher each.
func byVoucher(entries []entry) (parts [][]entry) {
	of := map[int64]int{} // the part of each voucher
	for _, e := range entries {
		i, known := of[e.stream.voucher]
		if !known {
			i = len(parts)
			of[e.stream.voucher], parts = i, append(parts, nil)
		}
		parts[i] = append(parts[i], e)
	}
	return parts
}

// voucherOf returns the voucher of some entries, and whether all of them are of it.
func voucherOf(entries []entry) (voucherID int64, one bool) {
	voucherID = entries[0].stream.voucher
	return voucherID, !slices.ContainsFunc(entries, func(e entry) bool { return e.stream.voucher != voucherID })
}

// divide returns the entries for which is reports true, and the others.
func divide(entries []entry, is func(entry) bool) (those, others []entry) {
	those = make([]entry, 0, len(entries))
	for _, e := range entries {
		if is(e) {
			those = append(those, e)
		} else {
			others = append(others, e)
		}
	}
	return those, others
}

func accepted(entries []entry) []contract.Accepted {
	orders := make([]contract.Accepted, len(entries))
	for i := range entries {
		orders[i] = entries[i].order
	}
	return orders
}
