package fulfil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/ledger"
)

func (r *redisStreams) backlog(ctx context.Context, streams []*stream) (map[*stream]int64, time.Duration, error) {
	if len(streams) == 0 {
		return nil, 0, nil
	}
	counts, errs := eachStream(ctx, r, streams, func(ctx context.Context, pipe redis.Pipeliner, s *stream) *redis.IntCmd {
		return pipe.XLen(ctx, s.keys.Orders)
	})
	lengths := make(map[*stream]int64, len(streams))
	var filled []*stream
	failed := cmp.Or(errs...)
	for i, s := range streams {
		if errs[i] != nil {
			continue
		}
		if lengths[s] = counts[i].Val(); lengths[s] > 0 {
			filled = append(filled, s)
		}
	}
	oldest, err := r.measureFilled(ctx, filled, lengths)
	if failed = cmp.Or(failed, err); failed != nil {
		return lengths, 0, fmt.Errorf("read the lengths of the streams: %w", failed)
	}
	return lengths, oldest, nil
}

// measureFilled adds to the lengths of streams how many orders their entries have beyond one each, and returns the age
// of the oldest entry.
func (r *redisStreams) measureFilled(ctx context.Context, streams []*stream, lengths map[*stream]int64) (oldest time.Duration, failed error) {
	if len(streams) == 0 {
		return 0, nil
	}
	clocks := make([]*redis.TimeCmd, len(streams))
	extras, firsts := make([]*redis.StringCmd, len(streams)), make([]*redis.XMessageSliceCmd, len(streams))
	errs := r.eachNode(ctx, streams, func(ctx context.Context, pipe redis.Pipeliner, part []int) {
		clock := redis.NewTimeCmd(ctx, "eval", timeScript, 1, streams[part[0]].keys.Orders)
		_ = pipe.Process(ctx, clock)
		for _, i := range part {
			clocks[i] = clock
			extras[i] = pipe.HGet(ctx, streams[i].keys.Meta, ledger.FieldExtra)
			firsts[i] = pipe.XRangeN(ctx, streams[i].keys.Orders, "-", "+", 1)
		}
	})
	for i, s := range streams {
		if errs[i] != nil {
			failed = cmp.Or(failed, errs[i])
			continue
		}
		if extra, err := extras[i].Int64(); err == nil {
			lengths[s] += extra
		}
		failed = cmp.Or(failed, clocks[i].Err(), firsts[i].Err())
		for _, first := range firsts[i].Val() {
			oldest = max(oldest, clocks[i].Val().Sub(ledger.ParseEntry(first.ID, first.Values)[0].Order.At))
		}
	}
	return oldest, failed
}

// timeScript reads the clock of the node that has the key of the script. The command TIME has no key, so a cluster
// client would send it to any node, even to one that hangs.
const timeScript = "return redis.call('TIME')"

func (r *redisStreams) epochs(ctx context.Context, streams []*stream) (map[*stream]int64, error) {
	replies, errs := eachStream(ctx, r, streams, func(ctx context.Context, pipe redis.Pipeliner, s *stream) *redis.StringCmd {
		return pipe.HGet(ctx, s.keys.Meta, ledger.FieldEpoch)
	})
	epochs := make(map[*stream]int64, len(streams))
	for i, s := range streams {
		err := errs[i]
		if err == nil {
			epochs[s], err = replies[i].Int64()
		}
		if err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("read the epochs of the streams: %w", err)
		}
	}
	return epochs, nil
}

func (r *redisStreams) countPending(ctx context.Context, streams []*stream) (map[*stream]map[string]int64, error) {
	if len(streams) == 0 {
		return nil, nil
	}
	replies, errs := eachStream(ctx, r, streams, func(ctx context.Context, pipe redis.Pipeliner, s *stream) *redis.XPendingCmd {
		return pipe.XPending(ctx, s.keys.Orders, ledger.Group)
	})
	counts := map[*stream]map[string]int64{}
	for i, s := range streams {
		if errs[i] == nil && replies[i].Val().Count > 0 {
			counts[s] = replies[i].Val().Consumers
		}
	}
	if failed := cmp.Or(errs...); failed != nil {
		return counts, fmt.Errorf("count pending entries: %w", failed)
	}
	return counts, nil
}

func (r *redisStreams) idleConsumers(ctx context.Context, s *stream, idle time.Duration) ([]string, error) {
	consumers, err := call(ctx, r, s, nodeTimeout, func(ctx context.Context) ([]redis.XInfoConsumer, error) {
		return r.client.XInfoConsumers(ctx, s.keys.Orders, ledger.Group).Result()
	})
	if err != nil {
		return nil, fmt.Errorf("list consumers: %w", err)
	}
	var names []string
	for _, c := range consumers {
		if c.Pending == 0 && c.Idle >= idle {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// setHeartbeat renews the key before it tries to set it: GETEX needs no memory, and Redis may have none left.
func (r *redisStreams) setHeartbeat(ctx context.Context, key, incarnation string, ttl time.Duration) (renewed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	pipe := r.client.Pipeline()
	before, set := pipe.GetEx(ctx, key, ttl), pipe.SetNX(ctx, key, incarnation, ttl)
	_, _ = pipe.Exec(ctx) // each command has its own error
	switch {
	case errors.Is(before.Err(), redis.Nil):
		return false, set.Err()
	case before.Err() != nil:
		return false, errors.Join(before.Err(), set.Err())
	case before.Val() != incarnation: // of a process that had the same name
		return false, r.client.Set(ctx, key, incarnation, ttl).Err()
	}
	return true, nil
}

func (r *redisStreams) removeHeartbeat(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	return r.client.Del(ctx, key).Err()
}

func (r *redisStreams) alive(ctx context.Context, keys []string) (map[string]string, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	pipe := r.client.Pipeline()
	values := make([]*redis.StringCmd, len(keys))
	for i, key := range keys {
		values[i] = pipe.Get(ctx, key)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	alive := make(map[string]string, len(keys))
	for i, key := range keys {
		if err := values[i].Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, fmt.Errorf("read the heartbeats: %w", err)
		}
		alive[key] = values[i].Val()
	}
	return alive, nil
}
