package fulfil

import (
	"log/slog"
	"slices"
	"testing"

	"seckill/internal/admission/contract"
)

// A process starts while a node of a Redis cluster does not answer. It knows which vouchers may have orders that are
// not in the database yet, so that those of the other nodes are found.
func TestStartWhileANodeIsAway(t *testing.T) {
	t.Parallel()
	for _, away := range []int64{1, 2} { // on sale, and ended
		m := newFakeStreams(0)
		m.away = away
		// The first voucher is on sale. Of the others the sale has ended.
		lists := &listingStore{now: singleBucket(1), ever: []contract.AdmissionVoucher{{VoucherID: 2, Buckets: 3}, {VoucherID: 3, Buckets: 1}}}
		f := newFulfiller(Config{Store: lists, Log: slog.New(slog.DiscardHandler)}.withDefaults(), m)
		if _, complete := f.Watched(); complete {
			t.Error("complete before the start")
		}
		for range 3 {
			f.discovery.discover(t.Context(), true)
			vouchers, complete := f.Watched()
			i := slices.IndexFunc(vouchers, func(v contract.AdmissionVoucher) bool { return v.VoucherID == away })
			if !complete || i < 0 || vouchers[i].Buckets != 2*int(away)-1 || !slices.ContainsFunc(vouchers, func(v contract.AdmissionVoucher) bool { return v.VoucherID == 1 }) {
				t.Errorf("voucher %d is on the node: watched %+v, complete %t", away, vouchers, complete)
			}
		}
		m.away = 0 // the node is back
		f.discovery.discover(t.Context(), true)
		if vouchers, complete := f.Watched(); !complete || !f.discovery.complete.Load() {
			t.Errorf("the node is back: watched %+v, complete %t", vouchers, complete)
		}
	}
}
