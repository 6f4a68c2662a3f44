package admission

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
	"seckill/internal/voucher"
)

const (
	// listTimeout bounds one read of the list of vouchers. It is shorter than the deadline of a request, so that a
	// database that hangs is reported as unavailable and not as a request that took too long.
	listTimeout = 3 * time.Second
	// watchedPoll is how often a process that has just started asks whether its workers know all streams.
	watchedPoll = 10 * time.Millisecond
)

// takeScan finds the buckets whose accepted orders may not be in the database yet. A consumer removes an entry from a
// bucket's stream after its order is in the database. So if Redis has a bucket under the database's epoch and its
// stream is empty, the database has all orders that the bucket had accepted when the scan began.
//
// In the other buckets the scan looks for orders of the users who wait for it.
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
	s.list(len(nodes))
	busy = time.Since(begun)
	users, answers := slices.Collect(maps.Keys(s.users)), make(chan nodeAnswer)
	for _, some := range nodes {
		reading := nodeReading{lookups: l, users: users}
		go func() { answers <- reading.read(ctx, some) }()
	}
	for i := range s.nodes {
		n := &s.nodes[i]
		if n.nodeAnswer = <-answers; n.silent == nil {
			busy = time.Since(begun)
		}
		close(n.done)
	}
	return busy
}

// listBuckets lists the buckets of all vouchers whose orders are looked for. Each scan reads the list again, so a
// voucher that was opened before the scan is on it. A voucher that was never opened has no orders.
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

func (l *lookups) listVouchers(ctx context.Context) ([]contract.AdmissionVoucher, error) {
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
		var more []contract.AdmissionVoucher
		more, err = l.listOlder(ctx, without(watched, vouchers))
		vouchers = append(vouchers, more...)
	}
	if err != nil && ctx.Err() != nil {
		return nil, unavailable(err)
	}
	return vouchers, err
}

// without returns those of some vouchers that are not in a list, which is sorted by ID.
func without(some, list []contract.AdmissionVoucher) []contract.AdmissionVoucher {
	return slices.DeleteFunc(some, func(v contract.AdmissionVoucher) bool {
		_, listed := slices.BinarySearchFunc(list, v, func(a, b contract.AdmissionVoucher) int { return cmp.Compare(a.VoucherID, b.VoucherID) })
		return listed
	})
}

// listOlder lists those of some vouchers that are not forgotten. If the database has lost a voucher, the workers'
// knowledge of it counts, so that its buyers still find their orders.
func (l *lookups) listOlder(ctx context.Context, some []contract.AdmissionVoucher) ([]contract.AdmissionVoucher, error) {
	if len(some) == 0 {
		return nil, nil
	}
	ids := make([]int64, len(some))
	for i, v := range some {
		ids[i] = v.VoucherID
	}
	older, err := l.config.Store.AdmissionVouchersOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	for _, v := range without(some, older) {
		_, err := l.config.Store.EpochState(ctx, v.VoucherID)
		switch {
		case errors.Is(err, voucher.ErrNotFound):
			v.Epoch = anyEpoch
			older = append(older, v)
		case err != nil:
			return nil, err
		}
	}
	return older, nil
}

// byNode groups buckets by the nodes of a cluster that hold them.
func (l *lookups) byNode(ctx context.Context, all []scannedBucket) [][]scannedBucket {
	ctx, cancel := context.WithTimeout(ctx, l.config.AttemptTimeout)
	defer cancel()
	groups := l.reader.ByNode(ctx, keysOf(all))
	nodes := make([][]scannedBucket, len(groups))
	for i, group := range groups {
		for _, n := range group {
			nodes[i] = append(nodes[i], all[n])
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
