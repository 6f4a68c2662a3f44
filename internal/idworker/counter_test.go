package idworker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"seckill/internal/order"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestRedisCounter(t *testing.T) {
	client, prefix := anyRedis(t), testkit.KeyPrefix(t)
	const workers, each = 8, 100
	ids := make([][]int64, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			c := NewRedisCounter(client, CounterConfig{KeyPrefix: prefix})
			for range each {
				id, err := c.NextID(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				ids[w] = append(ids[w], id)
			}
		})
	}
	wg.Wait()
	seen := unique{}
	for w := range workers {
		seen.add(t, fmt.Sprintf("worker %d", w), ids[w]...)
	}
	fail.Unequal(t, len(seen), workers*each, "ids")
	for _, key := range client.Keys(t.Context(), prefix+"*").Val() {
		if !strings.HasPrefix(key, prefix+"icr:order:20") {
			t.Errorf("key %q", key)
		}
		if ttl := client.PTTL(t.Context(), key).Val(); ttl <= 24*time.Hour || ttl > counterTTL {
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
}

// Second and day come from one reading of the clock, whatever the time zone.
func TestCounterKey(t *testing.T) {
	c := NewRedisCounter(nil, CounterConfig{KeyPrefix: "p:"})
	midnight := time.Date(2026, time.November, 21, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Time]string{
		midnight:                   "p:icr:order:2026:11:21",
		midnight.Add(-time.Second): "p:icr:order:2026:11:20",
	} {
		fail.Unequal(t, c.key(at), want, "key(%v)", at)
	}
}

func TestCounterErrors(t *testing.T) {
	server := simulate.NewRedis(t)
	client := server.Client(t)
	c := NewRedisCounter(client, CounterConfig{})
	for _, day := range []time.Time{time.Now().UTC(), time.Now().UTC().Add(time.Hour)} {
		fail.NowIf(t, client.Set(t.Context(), c.key(day), int64(1)<<countBits-2, 0).Err())
	}
	mustMint(t, c)
	if id, err := c.NextID(t.Context()); !errors.Is(err, ErrExhausted) {
		t.Errorf("NextID = %d, %v with the count of the day used up; want ErrExhausted", id, err)
	}
	server.Stop()
	if _, err := c.NextID(t.Context()); !errors.Is(err, order.ErrUnavailable) {
		t.Errorf("%v while Redis is down; want order.ErrUnavailable", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.NextID(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want context.Canceled", err)
	}
}

func TestCounterLayout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seconds := rapid.Int64Range(0, 1<<secondsBits-1).Draw(t, "seconds")
		count := rapid.Int64Range(1, 1<<countBits-1).Draw(t, "count")
		id, err := compose(seconds, count)
		if err != nil || id <= 0 || id>>countBits != seconds || id&(1<<countBits-1) != count {
			t.Fatalf("compose(%d, %d) = %d, %v", seconds, count, id, err)
		}
	})
	for _, bad := range [][2]int64{{-1, 1}, {1 << secondsBits, 1}, {1, 0}, {1, 1 << countBits}} {
		if id, err := compose(bad[0], bad[1]); !errors.Is(err, ErrExhausted) {
			t.Errorf("compose%v = %d, %v; want ErrExhausted", bad, id, err)
		}
	}
}
