package admission

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"seckill/internal/admission/ledger"
	"seckill/internal/order"
)

const (
	// listTimeout bounds one read of the list of vouchers. It is shorter than the deadline of a
	// request, so that a database that hangs is reported as unavailable and not as a request that
	// took too long.
	listTimeout = 3 * time.Second
	// watchedPoll is how often a process that has just started asks whether its workers know all streams.
	watchedPoll = 10 * time.Millisecond
	// bucketsPerCall is how many buckets are read in one round trip.
	bucketsPerCall = 1000
)

// takeScan finds the buckets whose accepted orders may not be in the database yet. A consumer removes
// an entry from a bucket's stream after its order is in the database. So if Redis has a bucket under
// the database's epoch and its stream is empty, the database has all orders that the bucket had
// accepted when the scan began.
//
// The nodes of a cluster are read at the same time. A node that hangs does not delay the others.
func (l *lookups) takeScan(ctx context.Context, s *scan) (busy time.Duration) {
	begun := time.Now()
	all, err := l.listBuckets(ctx)
	if err != nil {
		s.fail(err)
		return time.Since(begun)
	}
	nodes := l.byNode(ctx, all)
	s.list(nodes)
	listed, answered := time.Since(begun), make([]time.Duration, len(nodes))
	var reading sync.WaitGroup
	for i, n := range nodes {
		reading.Go(func() {
			if l.readNode(ctx, n) {
				answered[i] = time.Since(begun)
			}
		})
	}
	reading.Wait()
	return slices.Max(append(answered, listed))
}

// listBuckets lists the buckets of all vouchers whose orders are looked for. Each scan reads the list
// again, so a voucher that was opened before the scan is on it. A voucher that was never opened has
// no orders.
func (l *lookups) listBuckets(ctx context.Context) (all []scannedBucket, err error) {
	vouchers, err := l.listVouchers(ctx)
	if err != nil {
		return nil, err
	}
	for _, v := range vouchers {
		for n := 0; n < v.Buckets && !neverOpened(v.Epoch); n++ {
			keys := ledger.KeysOf(l.config.Prefix, v.VoucherID, n)
			all = append(all, scannedBucket{AdmissionVoucher: v, number: n, keys: keys})
		}
	}
	return all, nil
}

func (l *lookups) listVouchers(ctx context.Context) ([]order.AdmissionVoucher, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	watched, complete := l.config.Workers.Watched()
	for !complete { // after a start it takes them a moment
		if !sleep(ctx, watchedPoll) {
			return nil, unavailable(errStarting)
		}
		watched, complete = l.config.Workers.Watched()
	}
	vouchers, err := l.config.Store.AdmissionVouchers(ctx, time.Now().Add(-l.config.LookupAfterSale))
	if err == nil {
		// The workers still read the streams of older vouchers whose orders the database has not taken.
		older := slices.DeleteFunc(watched, func(id int64) bool {
			_, listed := slices.BinarySearchFunc(vouchers, id, func(v order.AdmissionVoucher, id int64) int { return cmp.Compare(v.VoucherID, id) })
			return listed
		})
		if len(older) > 0 {
			var more []order.AdmissionVoucher
			more, err = l.config.Store.AdmissionVouchersOf(ctx, older)
			vouchers = append(vouchers, more...)
		}
	}
	if err != nil && ctx.Err() != nil {
		return nil, unavailable(err)
	}
	return vouchers, err
}

// byNode groups buckets by the nodes of a cluster that have them.
func (l *lookups) byNode(ctx context.Context, all []scannedBucket) []*nodeScan {
	ctx, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	groups := l.reader.ByNode(ctx, keysOf(all))
	nodes := make([]*nodeScan, len(groups))
	for i, group := range groups {
		nodes[i] = &nodeScan{done: make(chan struct{})}
		for _, n := range group {
			nodes[i].all = append(nodes[i].all, all[n])
		}
	}
	return nodes
}

func keysOf(some []scannedBucket) []ledger.Keys {
	keys := make([]ledger.Keys, len(some))
	for i := range some {
		keys[i] = some[i].keys
	}
	return keys
}

// readNode reads the buckets of one node, and reports whether the node answered in time.
func (l *lookups) readNode(ctx context.Context, n *nodeScan) (answered bool) {
	defer close(n.done)
	var suspects []suspect
	var silent error
	for some := range slices.Chunk(n.all, bucketsPerCall) {
		if silent == nil {
			var found []suspect
			found, silent = l.readSome(ctx, n, some)
			suspects = append(suspects, found...)
			continue
		}
		for _, b := range some { // one timeout is enough
			n.unknown = append(n.unknown, unknownBucket{b, silent})
		}
	}
	l.classify(ctx, n, suspects)
	return silent == nil
}

// suspect is a bucket that Redis does not have open under the epoch that the list of vouchers had.
type suspect struct {
	scannedBucket
	redisEpoch int64 // 0 if Redis has none
}

// readSome reads some buckets in one round trip. It returns the suspects, and an error if the node
// did not answer in time.
func (l *lookups) readSome(ctx context.Context, n *nodeScan, some []scannedBucket) (suspects []suspect, silent error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	for i, backlog := range l.reader.Backlogs(ctx, keysOf(some)) {
		switch b := some[i]; {
		case backlog.Pending > 0:
			n.pending = append(n.pending, b)
		case backlog.Err != nil:
			n.unknown = append(n.unknown, unknownBucket{b, backlog.Err})
		case !openUnder(backlog.Epoch, b.Epoch):
			suspects = append(suspects, suspect{b, backlog.Epoch})
		}
	}
	return suspects, ctx.Err()
}

// openUnder reports whether a bucket with an epoch is open, and the database has the same epoch or
// has just closed it.
func openUnder(redis, database int64) bool {
	return redis > 0 && redis%2 == 0 && (database == redis || database == redis+1)
}

// classify reads the list of vouchers again for the suspects: since it was read, a voucher may have
// been forgotten, or closed, drained and opened under the next epoch. In both cases the database has
// all orders. What the other suspects had is unknown.
func (l *lookups) classify(ctx context.Context, n *nodeScan, suspects []suspect) {
	if len(suspects) == 0 {
		return
	}
	vouchers, err := l.listVouchers(ctx)
	if err != nil {
		for _, s := range suspects {
			n.unknown = append(n.unknown, unknownBucket{s.scannedBucket, err})
		}
		return
	}
	now := make(map[int64]order.AdmissionVoucher, len(vouchers))
	for _, v := range vouchers {
		now[v.VoucherID] = v
	}
	for _, s := range suspects {
		if v, there := now[s.VoucherID]; there && !openUnder(s.redisEpoch, v.Epoch) {
			n.unknown = append(n.unknown, unknownBucket{s.scannedBucket, errOpening})
		}
	}
}
