package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"seckill/internal/admission/batch"
	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/order"
	"seckill/internal/voucher"
)

// voucherState is what a gate keeps in memory of a voucher: its buckets, and what concerns all buckets.
type voucherState struct {
	*core
	id     int64
	window window
	// revision of the voucher with which the state was created.
	revision int64
	buckets  []*bucket

	mu        sync.Mutex // taken before a bucket's, never after
	lifecycle lifecycle
	checked   atomic.Int64 // when it was last checked, on the gate's clock

	// rebalancing has room for the one bucket that rebalances; see rebalance.go.
	rebalancing chan struct{}
	// soldOut is the cached refusal of all buckets while no bucket has any stock. Until soldOutUntil, on the gate's
	// clock, no bucket looks for stock again; 0 while it is not in use.
	soldOut      cachedRefusal
	soldOutUntil atomic.Int64
}

func newVoucherState(c *core, of *voucher.Voucher) *voucherState {
	v := &voucherState{
		core: c, id: of.ID, window: window{from: of.BeginAt, to: of.EndAt}, revision: of.Revision,
		rebalancing: make(chan struct{}, 1),
		soldOut:     cachedRefusal{err: voucher.ErrSoldOut, every: c.config.RecheckEvery},
	}
	for number := range of.Policy.BucketCount() {
		v.buckets = append(v.buckets, newBucket(v, number))
	}
	return v
}

// voucherOf returns the part of a voucher that its state needs.
func voucherOf(voucherID int64, st contract.EpochState) *voucher.Voucher {
	v := &voucher.Voucher{ID: voucherID, Revision: st.Revision, BeginAt: st.BeginAt, EndAt: st.EndAt}
	v.Policy.Buckets = len(st.Seq)
	return v
}

// isOf reports whether the state was created for the window of a voucher as it was read, or for the window of a later
// revision: a request may have read the voucher before it was changed.
func (v *voucherState) isOf(of *voucher.Voucher) bool {
	return of.Revision < v.revision || v.window.to.Equal(of.EndAt) && v.window.from.Equal(of.BeginAt)
}

// bucketOf returns the bucket of a user.
func (v *voucherState) bucketOf(userID int64) *bucket {
	return v.buckets[ledger.BucketOf(userID, len(v.buckets))]
}

// split reports whether there are several buckets.
func (v *voucherState) split() bool { return len(v.buckets) > 1 }

// maxPending is how many orders of one bucket may be pending.
func (v *voucherState) maxPending() int64 {
	n := int64(len(v.buckets))
	return (v.config.MaxPending + n - 1) / n
}

// idle reports whether no request waits and the voucher is not being opened.
func (v *voucherState) idle() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, b := range v.buckets {
		if !b.queue.Idle() {
			return false
		}
	}
	return v.lifecycle.opening == nil
}

// soldSince reports whether orders were sent to a bucket since a time of the gate's clock.
func (v *voucherState) soldSince(when time.Duration) bool {
	for _, b := range v.buckets {
		if last := b.woken.Load(); last != 0 && time.Duration(last) >= when {
			return true
		}
	}
	return false
}

// knownStates lists what this process knows of each bucket.
func (v *voucherState) knownStates() []ledger.Known {
	all := make([]ledger.Known, len(v.buckets))
	for i, b := range v.buckets {
		all[i] = b.knownState()
	}
	return all
}

// epochState reads the database.
func (v *voucherState) epochState(ctx context.Context) (contract.EpochState, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	st, err := v.config.Store.EpochState(ctx, v.id)
	return bounded(st), err
}

// bounded drops sequence numbers that no script can have written, see [ledger.MaxNumber]: Redis could never catch up
// with them.
func bounded(st contract.EpochState) contract.EpochState {
	for i, seq := range st.Seq {
		if seq > ledger.MaxNumber {
			st.Seq[i] = 0
		}
	}
	return st
}

// markSoldOut notes that no bucket had any stock when the buckets were read. It stores the refusals before
// soldOutUntil, because clearSoldOut takes soldOutUntil as the sign that there are refusals.
func (v *voucherState) markSoldOut(read time.Duration) {
	until := int64(read + v.config.RecheckEvery)
	v.soldOut.next.Store(until)
	for _, b := range v.buckets {
		b.refusal.Store(&v.soldOut)
	}
	v.soldOutUntil.Store(until)
}

// clearSoldOut notes that there is stock.
func (v *voucherState) clearSoldOut() {
	if !v.split() {
		v.buckets[0].clear(voucher.ErrSoldOut)
		return
	}
	if v.soldOutUntil.Load() == 0 {
		return
	}
	v.soldOutUntil.Store(0)
	for _, b := range v.buckets {
		b.refusal.CompareAndSwap(&v.soldOut, nil)
	}
}

// bucket is one bucket of a voucher: the queue of the orders that wait for the next round trip, and what this process
// knows of the bucket in Redis.
type bucket struct {
	voucher *voucherState
	number  int
	keys    ledger.Keys
	queue   *batch.Queue[pendingOrder]
	refusalCache
	// unreachableUntil is until when rebalancing skips this bucket, on the gate's clock, because it did not answer; 0
	// after it answered.
	unreachableUntil atomic.Int64
	// woken is when the workers were last told to read the bucket's stream, on the gate's clock; 0 if they never were.
	woken atomic.Int64

	mu    sync.Mutex
	known ledger.Known // the epoch is 0 while the bucket is closed
}

// pendingOrder is an order that waits for its decision.
type pendingOrder struct {
	userID, orderID int64
	key             order.KeyHash
	late            bool          // it takes a unit again
	arrived         time.Duration // on the gate's clock
}

// request is an order in the queue of its bucket.
type request = batch.Request[pendingOrder]

func newBucket(v *voucherState, number int) *bucket {
	b := &bucket{
		voucher: v, number: number, keys: ledger.KeysOf(v.config.Prefix, v.id, number),
		refusalCache: refusalCache{end: v.window.to.UnixMilli()},
	}
	b.queue = batch.New(b, MaxBatch, v.spawn, unavailable(errClosed))
	return b
}

// knownState returns what this process knows of the bucket. The epoch is 0 while the bucket is closed.
func (b *bucket) knownState() ledger.Known {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.known
}

// adopt takes over the state of an open bucket, unless this process knows more of its epoch.
func (b *bucket) adopt(k ledger.Known) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known.Epoch != k.Epoch {
		b.known = k
	}
}

// observe takes over what a reply shows of an epoch.
func (b *bucket) observe(k ledger.Known) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known.Epoch != k.Epoch {
		return
	}
	if k.Order == 0 && k.Returned == b.known.Returned { // otherwise the last order may have been given back
		k.User, k.Order, k.Key, k.Late = b.known.User, b.known.Order, b.known.Key, b.known.Late
	}
	k.Seq = max(k.Seq, b.known.Seq)
	b.known = k
}

// observeSeq takes over the sequence number of an epoch that a transfer has shown.
func (b *bucket) observeSeq(epoch, seq int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known.Epoch == epoch {
		b.known.Seq = max(b.known.Seq, seq)
	}
}

// forgetEpoch notes that the bucket is not open under an epoch, and reports whether that was news.
func (b *bucket) forgetEpoch(epoch int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known.Epoch != epoch {
		return false
	}
	b.known = ledger.Known{}
	return true
}
