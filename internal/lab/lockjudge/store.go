package lockjudge

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
)

// store reads a database that only the judged lock uses. It does not know how the lock names its keys: every key that
// contains the lock's name counts as the lock's.
type store struct {
	client  *redis.Client
	history *history
}

func (s *store) store() locktest.Store {
	return locktest.Store{TTL: s.ttl, Shorten: s.shorten, Remove: s.remove, Leftovers: s.leftovers}
}

func (s *store) keys(ctx context.Context, key string) (found []string, err error) {
	all, err := s.client.Keys(ctx, "*").Result()
	for _, name := range all {
		if strings.Contains(name, key) {
			found = append(found, name)
		}
	}
	return found, err
}

// ttl is the longest lease of the lock's keys.
func (s *store) ttl(ctx context.Context, key string) (longest time.Duration, err error) {
	names, err := s.keys(ctx, key)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		ttl, err := s.client.PTTL(ctx, name).Result()
		switch {
		case err != nil:
			return 0, err
		case ttl == -1:
			return lock.NoExpiry, nil
		}
		longest = max(longest, ttl)
	}
	return longest, nil
}

func (s *store) shorten(ctx context.Context, key string, ttl time.Duration) error {
	names, err := s.keys(ctx, key)
	for _, name := range names {
		if left, failed := s.client.PTTL(ctx, name).Result(); failed == nil && left > 0 {
			err = s.client.PExpire(ctx, name, ttl).Err()
		}
	}
	s.history.note("Redis", "the lease of "+key+" is over in "+ttl.String()+", as if most of it had passed")
	return err
}

func (s *store) remove(ctx context.Context, key string) error {
	names, err := s.keys(ctx, key)
	if err == nil && len(names) > 0 {
		err = s.client.Del(ctx, names...).Err()
	}
	s.history.note("Redis", "the key of "+key+" expires")
	return err
}

func (s *store) leftovers(ctx context.Context) ([]string, error) {
	return s.client.Keys(ctx, "*").Result()
}
