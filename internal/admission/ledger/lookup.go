package ledger

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"seckill/internal/order"
)

// ByNode groups buckets, by index, by the node of a cluster that holds them. Buckets whose node is not known form one
// group. The grouping only decides which buckets are read in one round trip: the client itself finds the node of each
// key.
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
	// Pending counts the accepted orders that are not persisted yet. Where it is above 0 the rest is not set.
	Pending int64
	// Epoch is the bucket's; 0 where it has none.
	Epoch int64
	// Err says why the rest is not known.
	Err error
}

// Backlogs reads the backlogs of several buckets of one group of [Ledger.ByNode], in one or two round trips.
func (l *Ledger) Backlogs(ctx context.Context, buckets []Keys) []Backlog {
	if len(buckets) == 0 {
		return nil
	}
	if node := l.oneNode(ctx, buckets[0]); node != nil {
		if all, err := l.tracking.of(node).backlogs(ctx, node, buckets); err == nil {
			return l.redirected(ctx, buckets, all)
		}
	}
	all, _ := readBacklogs(ctx, l.client.Pipeline(), buckets) // each has its own error
	return all
}

// oneNode returns the client of the one server that holds a bucket, or nil if that is not known.
func (l *Ledger) oneNode(ctx context.Context, keys Keys) *redis.Client {
	switch c := l.client.(type) {
	case *redis.Client:
		return c
	case cluster:
		node, _ := c.MasterForKey(ctx, keys.Meta)
		return node
	}
	return nil
}

// redirected reads the backlogs again that could not be read: the client itself knows to which node a bucket has moved.
func (l *Ledger) redirected(ctx context.Context, buckets []Keys, all []Backlog) []Backlog {
	var failed []Keys
	var places []int
	for i := range all {
		if all[i].Err != nil {
			failed, places = append(failed, buckets[i]), append(places, i)
		}
	}
	again, _ := readBacklogs(ctx, l.client.Pipeline(), failed)
	for i, b := range again {
		all[places[i]] = b
	}
	return all
}

// readBacklogs reads backlogs through a pipeline. Its error is that of the first command that failed.
func readBacklogs(ctx context.Context, pipe redis.Pipeliner, buckets []Keys) ([]Backlog, error) {
	if len(buckets) == 0 {
		return nil, nil
	}
	lengths, epochs := make([]*redis.IntCmd, len(buckets)), make([]*redis.StringCmd, len(buckets))
	for i, keys := range buckets {
		// The epoch comes second: if Redis loses its data in between, the epoch is missing.
		lengths[i], epochs[i] = pipe.XLen(ctx, keys.Orders), pipe.HGet(ctx, keys.Meta, FieldEpoch)
	}
	_, failed := pipe.Exec(ctx)
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
	return all, failed
}

// Query asks which orders of some users a bucket holds.
type Query struct {
	Bucket Keys
	Users  []int64
}

// Reservations is what a bucket holds for the users of a [Query].
type Reservations struct {
	// Users has what the bucket has of each user, in the order of the query.
	Users []Reservation
	// Epoch is the bucket's; 0 where it has none.
	Epoch int64
	// UsersErr and EpochErr say why one of them is not known.
	UsersErr, EpochErr error
}

// Reservation is what a bucket holds for a user.
type Reservation struct {
	// Order is the user's accepted order; 0 where there is none. Key is its idempotency key.
	Order int64
	Key   order.KeyHash
	// Err says why the order is not known.
	Err error
}

// Reservations answers several queries in one round trip. Each costs two commands, however many users it names.
func (l *Ledger) Reservations(ctx context.Context, queries []Query) []Reservations {
	pipe := l.client.Pipeline()
	users, epochs := make([]*redis.SliceCmd, len(queries)), make([]*redis.StringCmd, len(queries))
	for i, q := range queries {
		fields := make([]string, len(q.Users))
		for n, user := range q.Users {
			fields[n] = strconv.FormatInt(user, 10)
		}
		// The epoch comes second: if Redis loses its data in between, the epoch is missing.
		users[i], epochs[i] = pipe.HMGet(ctx, q.Bucket.Users, fields...), pipe.HGet(ctx, q.Bucket.Meta, FieldEpoch)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	all := make([]Reservations, len(queries))
	for i, q := range queries {
		r := &all[i]
		r.Users, r.UsersErr = reserved(users[i], len(q.Users))
		r.Epoch, r.EpochErr = orZero(epochs[i])
	}
	return all
}

// reserved parses what some users have reserved.
func reserved(fields *redis.SliceCmd, users int) ([]Reservation, error) {
	values, err := fields.Result()
	if err == nil && len(values) != users {
		err = unexpected(values)
	}
	all := make([]Reservation, users)
	for i := range all {
		r := &all[i]
		if err != nil {
			r.Err = err
		} else if text, there := values[i].(string); there {
			r.Order, r.Key, r.Err = ParseReserved(text)
		}
	}
	return all, err
}

// orZero returns the number that a field holds, or 0 if the field is missing.
func orZero(field *redis.StringCmd) (int64, error) {
	n, err := field.Int64()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return n, err
}
