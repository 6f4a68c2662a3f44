package fulfil

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/admission/admkey"
)

func (r *streams) lengths(ctx context.Context, all []*stream) (map[*stream]int64, time.Duration, error) {
	if len(all) == 0 {
		return nil, 0, nil
	}
	clocks := make([]*redis.TimeCmd, len(all))
	counts, firsts := make([]*redis.IntCmd, len(all)), make([]*redis.XMessageSliceCmd, len(all))
	errs := r.eachNode(ctx, all, func(ctx context.Context, pipe redis.Pipeliner, part []int) {
		clock := redis.NewTimeCmd(ctx, "eval", timeText, 1, all[part[0]].keys.Orders)
		_ = pipe.Process(ctx, clock)
		for _, i := range part {
			clocks[i] = clock
			counts[i] = pipe.XLen(ctx, all[i].keys.Orders)
			firsts[i] = pipe.XRangeN(ctx, all[i].keys.Orders, "-", "+", 1)
		}
	})
	entries := make(map[*stream]int64, len(all))
	var oldest time.Duration
	var failed error
	for i, s := range all {
		if errs[i] != nil {
			failed = cmp.Or(failed, errs[i])
			continue
		}
		if counts[i].Err() == nil {
			entries[s] = counts[i].Val()
		}
		failed = cmp.Or(failed, clocks[i].Err(), counts[i].Err(), firsts[i].Err())
		for _, first := range firsts[i].Val() {
			oldest = max(oldest, clocks[i].Val().Sub(time.UnixMilli(idTime(first.ID))))
		}
	}
	if failed != nil {
		return entries, 0, fmt.Errorf("measure the streams: %w", failed)
	}
	return entries, oldest, nil
}

// timeText asks for the clock of the node where a key is. The command itself has no key,
// and a cluster's client would send it to any node, one that hangs among them.
const timeText = "return redis.call('TIME')"

func (r *streams) idlers(ctx context.Context, s *stream, idle time.Duration) ([]string, error) {
	consumers, err := ask(ctx, r, s, patience, func(ctx context.Context) ([]redis.XInfoConsumer, error) {
		return r.client.XInfoConsumers(ctx, s.keys.Orders, admkey.Group).Result()
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
