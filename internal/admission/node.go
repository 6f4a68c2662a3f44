package admission

import (
	"context"
	"iter"
	"math"
	"slices"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
)

const (
	// bucketsPerCall is how many buckets are read in one round trip.
	bucketsPerCall = 1000
	// usersPerCommand is how many users one command asks for, so that no command holds up Redis for long.
	usersPerCommand = 1000
	// usersPerCall is how many users the commands of one round trip ask for together.
	usersPerCall = 10 * usersPerCommand
)

// nodeReading is the part of a scan that reads the buckets of one node. It reads first which buckets have pending
// orders, and then which of these orders belong to users who wait for the scan.
type nodeReading struct {
	*lookups
	users    []int64
	suspects []suspect
	nodeAnswer
}

// suspect is a bucket that is not open in Redis under the epoch that the list of vouchers gave.
type suspect struct {
	*scannedBucket
	redisEpoch int64 // 0 if Redis has none
}

// query asks a bucket for the orders of some users.
type query struct {
	*scannedBucket
	users []int64
}

func (r *nodeReading) read(ctx context.Context, all []scannedBucket) nodeAnswer {
	var pending []*scannedBucket
	for some := range slices.Chunk(all, bucketsPerCall) {
		pending = append(pending, r.readBacklogs(ctx, some)...)
	}
	for some := range calls(queriesOf(pending, r.users)) {
		r.readOrders(ctx, some)
	}
	r.classify(ctx)
	return r.nodeAnswer
}

// readBacklogs finds the buckets that have pending orders, in one round trip.
func (r *nodeReading) readBacklogs(ctx context.Context, some []scannedBucket) (pending []*scannedBucket) {
	if r.silent != nil { // one timeout is enough
		for i := range some {
			r.doNotKnow(&some[i], r.silent)
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.AttemptTimeout)
	defer cancel()
	for i, backlog := range r.reader.Backlogs(ctx, keysOf(some)) {
		switch b := &some[i]; {
		case backlog.Pending > 0:
			pending = append(pending, b)
		case backlog.Err != nil:
			r.doNotKnow(b, backlog.Err)
		default:
			r.compare(b, backlog.Epoch)
		}
	}
	r.silent = ctx.Err()
	return pending
}

// readOrders answers some queries in one round trip.
func (r *nodeReading) readOrders(ctx context.Context, some []query) {
	if r.silent != nil {
		for _, q := range some {
			r.doNotKnow(q.scannedBucket, r.silent)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.config.AttemptTimeout)
	defer cancel()
	asked := make([]ledger.Query, len(some))
	for i, q := range some {
		asked[i] = ledger.Query{Bucket: q.keys, Users: q.users}
	}
	for i, has := range r.reader.Reservations(ctx, asked) {
		q := some[i]
		if has.UsersErr != nil {
			r.doNotKnow(q.scannedBucket, has.UsersErr)
			continue
		}
		for n, user := range q.users {
			r.keep(q.scannedBucket, user, has.Users[n])
		}
		// The users who have no order here have none only if Redis has all users.
		if has.EpochErr != nil {
			r.doNotKnow(q.scannedBucket, has.EpochErr)
		} else {
			r.compare(q.scannedBucket, has.Epoch)
		}
	}
	r.silent = ctx.Err()
}

// keep keeps the bucket's order of a user, if there is one.
func (r *nodeReading) keep(b *scannedBucket, userID int64, has ledger.Reservation) {
	if has.Order == 0 && has.Err == nil {
		return
	}
	if r.found == nil {
		r.found = make(map[int64][]foundOrder)
	}
	r.found[userID] = append(r.found[userID], foundOrder{b, has})
}

func (r *nodeReading) doNotKnow(b *scannedBucket, err error) {
	r.unknown = append(r.unknown, unknownBucket{b, err})
}

// compare suspects a bucket that is not open, or is open under an epoch that the database does not know.
func (r *nodeReading) compare(b *scannedBucket, epoch int64) {
	if !openUnder(epoch, b.Epoch) {
		r.suspects = append(r.suspects, suspect{b, epoch})
	}
}

// anyEpoch stands for the epoch of a voucher that the database has lost.
const anyEpoch = math.MaxInt64

// openUnder reports whether a bucket is open under an epoch that counts: the database has the same epoch, or has just
// closed it, or has lost the voucher.
func openUnder(redis, database int64) bool {
	return redis > 0 && redis%2 == 0 && (database == redis || database == redis+1 || database == anyEpoch)
}

// opensPerNode is how many vouchers one scan of a node starts to open. After Redis was emptied all of them are closed.
const opensPerNode = 8

// classify reads the list of vouchers again for the suspects: since it was read, a voucher may have been forgotten, or
// closed, drained and opened under the next epoch. In both cases the database holds all orders. What the other suspects
// held is unknown until their vouchers are open again.
//
// But one voucher that cannot be opened, because one of its orders cannot be written, must not delay the look-ups of
// all users for ever. After a while the orders that Redis holds count. Then an order that Redis lost, and that a worker
// holds and cannot write, is not found although it may still be confirmed.
func (r *nodeReading) classify(ctx context.Context) {
	if len(r.suspects) == 0 {
		return
	}
	vouchers, err := r.listVouchers(ctx)
	now := make(map[int64]contract.AdmissionVoucher, len(vouchers))
	for _, v := range vouchers {
		now[v.VoucherID] = v
	}
	started := 0
	for _, s := range r.suspects {
		if err != nil {
			r.doNotKnow(s.scannedBucket, err)
		} else if v, there := now[s.VoucherID]; there && !openUnder(s.redisEpoch, v.Epoch) {
			if s.redisEpoch == v.Epoch && r.stuck(s.VoucherID) {
				continue
			}
			r.doNotKnow(s.scannedBucket, errOpening)
			if started < opensPerNode && r.open(s.VoucherID) {
				started++
			}
		}
	}
}

// calls splits queries into groups of one round trip each.
func calls(queries []query) iter.Seq[[]query] {
	return func(yield func([]query) bool) {
		for len(queries) > 0 {
			n, users := 0, 0
			for n < len(queries) && n < bucketsPerCall && (n == 0 || users+len(queries[n].users) <= usersPerCall) {
				users += len(queries[n].users)
				n++
			}
			if !yield(queries[:n]) {
				return
			}
			queries = queries[n:]
		}
	}
}

// queriesOf makes a query to each bucket for the users who belong to it.
func queriesOf(some []*scannedBucket, users []int64) (queries []query) {
	split := make(map[int][][]int64) // the users of each bucket, by how many buckets there are
	for _, b := range some {
		if split[b.Buckets] == nil {
			parts := make([][]int64, b.Buckets)
			for _, user := range users {
				n := ledger.BucketOf(user, b.Buckets)
				parts[n] = append(parts[n], user)
			}
			split[b.Buckets] = parts
		}
		for part := range slices.Chunk(split[b.Buckets][b.number], usersPerCommand) {
			queries = append(queries, query{b, part})
		}
	}
	return queries
}
