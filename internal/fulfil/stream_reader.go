package fulfil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/contract"
	"seckill/internal/admission/ledger"
)

// streamReader is what the workers need of Redis.
type streamReader interface {
	// ensureGroup makes sure that the stream has its consumer group. Its error is errNoVoucher if Redis does not have the
	// voucher.
	ensureGroup(ctx context.Context, s *stream) error
	// readNew delivers entries to a consumer that were never delivered, up to count of each stream. It waits up to block
	// for the first one, and not for much longer than until other is closed, because there are other streams to read. If
	// it returns an error, more entries may have been delivered than it returns. A [readError] names the streams that
	// failed; the others did not.
	readNew(ctx context.Context, consumer string, streams []*stream, count int, block time.Duration, other <-chan struct{}) ([]entry, error)
	// readPending delivers the pending entries of a consumer again, from after an id on. With an error it returns none,
	// and neither do claimIdle and claimFrom.
	readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error)
	// claimIdle claims entries that have been pending for idle at any consumer. It starts at a cursor and returns the next
	// one, "0-0" at the end.
	claimIdle(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) (entries []entry, next string, err error)
	// claimFrom claims up to count entries that have been pending for idle at one consumer.
	claimFrom(ctx context.Context, consumer, from string, s *stream, idle time.Duration, count int) ([]entry, error)
	// countPending counts the pending entries by stream and consumer. If it returns an error, some streams are missing
	// from the result.
	countPending(ctx context.Context, streams []*stream) (map[*stream]map[string]int64, error)

	// setHeartbeat sets a process's heartbeat key, and reports whether it was there. removeHeartbeat deletes it, and alive
	// returns the incarnations that the keys have.
	setHeartbeat(ctx context.Context, key, incarnation string, ttl time.Duration) (renewed bool, err error)
	removeHeartbeat(ctx context.Context, key string) error
	alive(ctx context.Context, keys []string) (map[string]string, error)

	// acknowledge deletes entries from their streams and announces that their orders are final. Each part has the entries
	// of one stream, and its own error.
	acknowledge(ctx context.Context, parts [][]entry) []error
	// split replaces the stream's entry of an order by one entry for each of its orders, which are delivered as new ones.
	split(ctx context.Context, e entry) error
	// deadLetter moves an entry to the dead letters. With returnStock it also returns the reservation of e.order. It
	// reports false if another consumer was faster.
	deadLetter(ctx context.Context, e entry, returnStock bool, reason Reason, detail string) (bool, error)
	// beginAttempt records that a process is about to write an entry alone, and returns the other processes that have
	// begun that and not ended it. With an error it may be recorded. endAttempt records the end of an attempt, if it had
	// begun. Both may be repeated.
	beginAttempt(ctx context.Context, e entry, process string) (others []string, err error)
	endAttempt(ctx context.Context, e entry, process string) error
	// findReservation completes the order of a malformed entry from the voucher's reservations. It reports whether it
	// found the reservation.
	findReservation(ctx context.Context, e entry) (contract.Accepted, bool, error)

	// epochs returns the epochs of the streams' buckets; a bucket that Redis does not have is missing.
	epochs(ctx context.Context, streams []*stream) (map[*stream]int64, error)
	// backlog returns the lengths of the streams and the age of the oldest entry. If it returns an error, some streams are
	// missing from the result.
	backlog(ctx context.Context, streams []*stream) (lengths map[*stream]int64, oldest time.Duration, err error)
	// idleConsumers lists the consumers without pending entries that have been idle.
	idleConsumers(ctx context.Context, s *stream, idle time.Duration) ([]string, error)
	// removeConsumer removes a consumer from the group, unless it has pending entries.
	removeConsumer(ctx context.Context, consumer string, s *stream) error
}

// redisStreams is the [streamReader] in Redis.
type redisStreams struct {
	client redis.UniversalClient
	// cluster is the client if it is a cluster's, else nil. In a cluster the streams are in different slots, and no
	// command reads more than one of them.
	cluster *redis.ClusterClient
	breaker circuitBreaker
	scripts *ledger.Consumers
}

var _ streamReader = (*redisStreams)(nil)

func newRedisStreams(client redis.UniversalClient) *redisStreams {
	cluster, _ := client.(*redis.ClusterClient)
	return &redisStreams{
		client: client, cluster: cluster, breaker: circuitBreaker{openUntil: map[string]time.Time{}},
		scripts: ledger.NewConsumers(func() int64 { return 0 }),
	}
}

// errNoVoucher: Redis does not have the voucher. It is not open yet, or Redis was emptied, or the voucher was removed
// from Redis.
var errNoVoucher = errors.New("fulfil: Redis does not have the voucher")

func (r *redisStreams) ensureGroup(ctx context.Context, s *stream) error {
	exists, err := call(ctx, r, s, nodeTimeout, func(ctx context.Context) (bool, error) {
		return r.scripts.EnsureGroup(ctx, r.client, s.keys)
	})
	switch {
	case err != nil:
		return fmt.Errorf("create the consumer group: %w", err)
	case !exists:
		return errNoVoucher
	}
	return nil
}

// longestBlock is how long one read blocks in Redis at most: a blocked read does not notice that a stream was woken.
const longestBlock = 10 * time.Millisecond

func (r *redisStreams) readNew(
	ctx context.Context, consumer string, streams []*stream, count int, block time.Duration, other <-chan struct{},
) ([]entry, error) {
	if r.cluster != nil && len(streams) > 1 {
		return r.pollStreams(ctx, consumer, streams, count, block, other)
	}
	block = min(block, longestBlock)
	args := &redis.XReadGroupArgs{Group: ledger.Group, Consumer: consumer, Count: int64(count), Block: block}
	args.Streams = make([]string, 2*len(streams))
	for i, s := range streams {
		args.Streams[i], args.Streams[len(streams)+i] = s.keys.Orders, ">"
	}
	found, err := call(ctx, r, streams[0], block+nodeTimeout, func(ctx context.Context) ([]redis.XStream, error) {
		return r.client.XReadGroup(ctx, args).Result()
	})
	_, refused := errors.AsType[redis.Error](err)
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case refused && len(streams) > 1:
		// One bad stream makes the command fail for all of them.
		return r.pollStreams(ctx, consumer, streams, count, 0, other)
	case err != nil:
		return nil, fmt.Errorf("read accepted orders: %w", err)
	}
	return entriesOf(streams, found), nil
}

// firstPoll is the pause after the first poll without entries. It doubles each time.
const firstPoll = 2 * time.Millisecond

// readError is the error of some of the streams.
type readError struct {
	streams []*stream
	err     error
}

// Error implements error.
func (e *readError) Error() string { return e.err.Error() }

// Unwrap returns the cause for [errors.Is].
func (e *readError) Unwrap() error { return e.err }

// pollStreams reads each stream with a command of its own, in one round trip to each node. It polls, because no command
// can block on streams in several slots.
func (r *redisStreams) pollStreams(
	ctx context.Context, consumer string, streams []*stream, count int, block time.Duration, other <-chan struct{},
) ([]entry, error) {
	end := time.Now().Add(block)
	for wait := firstPoll; ; wait *= 2 {
		replies, errs := eachStream(ctx, r, streams, func(ctx context.Context, pipe redis.Pipeliner, s *stream) *redis.XStreamSliceCmd {
			return pipe.XReadGroup(ctx, &redis.XReadGroupArgs{
				Group: ledger.Group, Consumer: consumer, Count: int64(count), Block: -1, Streams: []string{s.keys.Orders, ">"},
			})
		})
		var entries []entry
		var failed *readError
		for i, s := range streams {
			switch {
			case errs[i] == nil:
				entries = append(entries, entriesOf(streams[i:i+1], replies[i].Val())...)
			case !errors.Is(errs[i], redis.Nil):
				if failed == nil {
					failed = &readError{err: fmt.Errorf("read accepted orders: %w", errs[i])}
				}
				failed.streams = append(failed.streams, s)
			}
		}
		switch {
		case failed != nil:
			return entries, failed
		case len(entries) > 0 || time.Until(end) < wait:
			return entries, nil
		}
		select {
		case <-time.After(wait):
		case <-other:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (r *redisStreams) readPending(ctx context.Context, consumer string, s *stream, after string, count int) ([]entry, error) {
	found, err := call(ctx, r, s, nodeTimeout, func(ctx context.Context) ([]redis.XStream, error) {
		return r.client.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: ledger.Group, Consumer: consumer, Count: int64(count), Block: -1, Streams: []string{s.keys.Orders, after},
		}).Result()
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("read pending entries: %w", err)
	}
	return r.counted(ctx, consumer, entriesOf([]*stream{s}, found))
}

func (r *redisStreams) claimIdle(ctx context.Context, consumer string, s *stream, idle time.Duration, cursor string, count int) ([]entry, string, error) {
	var next string
	found, err := call(ctx, r, s, nodeTimeout, func(ctx context.Context) (found []redis.XMessage, err error) {
		found, next, err = r.client.XAutoClaim(ctx, &redis.XAutoClaimArgs{
			Stream: s.keys.Orders, Group: ledger.Group, Consumer: consumer, MinIdle: idle, Start: cursor, Count: int64(count),
		}).Result()
		return found, err
	})
	if err != nil {
		return nil, "", fmt.Errorf("claim idle entries: %w", err)
	}
	entries, err := r.counted(ctx, consumer, parseAll(s, found))
	return entries, next, err
}

func (r *redisStreams) claimFrom(ctx context.Context, consumer, from string, s *stream, idle time.Duration, count int) ([]entry, error) {
	pending, err := call(ctx, r, s, nodeTimeout, func(ctx context.Context) ([]redis.XPendingExt, error) {
		return r.client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: s.keys.Orders, Group: ledger.Group, Consumer: from, Idle: idle, Start: "-", End: "+", Count: int64(count),
		}).Result()
	})
	if err != nil || len(pending) == 0 {
		return nil, err
	}
	args := &redis.XClaimArgs{Stream: s.keys.Orders, Group: ledger.Group, Consumer: consumer, MinIdle: idle}
	for _, p := range pending {
		args.Messages = append(args.Messages, p.ID)
	}
	found, err := call(ctx, r, s, nodeTimeout, func(ctx context.Context) ([]redis.XMessage, error) {
		return r.client.XClaim(ctx, args).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("claim the entries of %s: %w", from, err)
	}
	return r.counted(ctx, consumer, parseAll(s, found))
}

// counted sets the number of deliveries of pending entries of one stream. With an error it returns none of them: an
// entry that seems to be new would be written together with others although it may be deadly.
func (r *redisStreams) counted(ctx context.Context, consumer string, entries []entry) ([]entry, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	pending, err := call(ctx, r, entries[0].stream, nodeTimeout, func(ctx context.Context) ([]redis.XPendingExt, error) {
		return r.client.XPendingExt(ctx, &redis.XPendingExtArgs{
			Stream: entries[0].stream.keys.Orders, Group: ledger.Group, Consumer: consumer,
			Start: entries[0].id, End: entries[len(entries)-1].id, Count: int64(len(entries)),
		}).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	deliveries := make(map[string]int64, len(pending))
	for _, p := range pending {
		deliveries[p.ID] = p.RetryCount
	}
	if err := r.countOneByOne(ctx, consumer, entries, deliveries); err != nil {
		return nil, fmt.Errorf("count deliveries: %w", err)
	}
	for i, e := range entries {
		entries[i].deliveries = max(1, deliveries[e.id]) // 0 if it is no longer pending, and it is not new either
	}
	return entries, nil
}

// countOneByOne adds the deliveries that are not known yet. The consumer can have more entries between those that it
// has claimed.
func (r *redisStreams) countOneByOne(ctx context.Context, consumer string, entries []entry, deliveries map[string]int64) error {
	unknown := slices.DeleteFunc(slices.Clone(entries), func(e entry) bool { return deliveries[e.id] > 0 })
	if len(unknown) == 0 {
		return nil
	}
	counts, err := call(ctx, r, entries[0].stream, nodeTimeout, func(ctx context.Context) ([]redis.Cmder, error) {
		return r.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, e := range unknown {
				pipe.XPendingExt(ctx, &redis.XPendingExtArgs{
					Stream: e.stream.keys.Orders, Group: ledger.Group, Consumer: consumer, Start: e.id, End: e.id, Count: 1,
				})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	for _, count := range counts {
		for _, p := range count.(*redis.XPendingExtCmd).Val() {
			deliveries[p.ID] = p.RetryCount
		}
	}
	return nil
}
