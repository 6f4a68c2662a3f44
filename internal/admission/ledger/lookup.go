package ledger

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

// ByNode groups buckets, by index, by the node of a cluster that has them. Buckets whose node
// is not known form one group. The grouping only decides which buckets are read in one round
// trip: the client itself finds the node of each key.
func (l *Ledger) ByNode(ctx context.Context, buckets []Keys) [][]int {
	c, many := l.client.(cluster)
	groups := make(map[*redis.Client]int)
	var all [][]int
	for i, keys := range buckets {
		var node *redis.Client
		if many {
			node, _ = c.MasterForKey(ctx, keys.Meta)
		}
		n, known := groups[node]
		if !known {
			n = len(all)
			groups[node] = n
			all = append(all, nil)
		}
		all[n] = append(all[n], i)
	}
	return all
}

// Backlog says whether a bucket has orders that may not be in the database yet.
type Backlog struct {
	// Pending counts the accepted orders that are not persisted yet. Where it is above 0 the
	// rest is not set.
	Pending int64
	// Epoch is the bucket's; 0 where it has none.
	Epoch int64
	// Err says why the rest is not known.
	Err error
}

// Backlogs reads the backlogs of several buckets in one round trip.
func (l *Ledger) Backlogs(ctx context.Context, buckets []Keys) []Backlog {
	pipe := l.client.Pipeline()
	lengths, epochs := make([]*redis.IntCmd, len(buckets)), make([]*redis.StringCmd, len(buckets))
	for i, keys := range buckets {
		// The epoch comes second: if Redis loses its data in between, the epoch is missing.
		lengths[i], epochs[i] = pipe.XLen(ctx, keys.Orders), pipe.HGet(ctx, keys.Meta, FieldEpoch)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	all := make([]Backlog, len(buckets))
	for i := range all {
		pending, err := lengths[i].Result()
		if err == nil && pending > 0 {
			all[i].Pending = pending
			continue
		}
		epoch, epochErr := orZero(epochs[i])
		all[i] = Backlog{Epoch: epoch, Err: cmp.Or(err, epochErr)}
	}
	return all
}

// Reservation is what a bucket has of a user.
type Reservation struct {
	// Order is the user's accepted order; 0 where there is none. Key is its idempotency key.
	Order int64
	Key   order.KeyHash
	// Epoch is the bucket's; 0 where it has none.
	Epoch int64
	// OrderErr and EpochErr say why one of them is not known.
	OrderErr, EpochErr error
}

// Reservations reads what several buckets have of a user, in one round trip.
func (l *Ledger) Reservations(ctx context.Context, userID int64, buckets []Keys) []Reservation {
	pipe, user := l.client.Pipeline(), strconv.FormatInt(userID, 10)
	orders, epochs := make([]*redis.StringCmd, len(buckets)), make([]*redis.StringCmd, len(buckets))
	for i, keys := range buckets {
		orders[i], epochs[i] = pipe.HGet(ctx, keys.Users, user), pipe.HGet(ctx, keys.Meta, FieldEpoch)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	all := make([]Reservation, len(buckets))
	for i := range all {
		r := &all[i]
		r.Order, r.Key, r.OrderErr = reserved(orders[i])
		r.Epoch, r.EpochErr = orZero(epochs[i])
	}
	return all
}

// reserved parses what a user has reserved; 0 where there is nothing.
func reserved(field *redis.StringCmd) (id int64, key order.KeyHash, err error) {
	text, err := field.Result()
	switch {
	case errors.Is(err, redis.Nil):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	}
	return ParseReserved(text)
}

// orZero is the number that a field holds, 0 where there is no field.
func orZero(field *redis.StringCmd) (int64, error) {
	n, err := field.Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}
