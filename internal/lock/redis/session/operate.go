package session

import (
	"context"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// Inspect implements [lock.Inspector].
func (s *Session) Inspect(ctx context.Context, key string) (lock.State, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return lock.State{}, err
	}
	keys := s.keys(key)
	waiting, inRedis := s.waiters.count(keys[0])
	c := s.batcher.run(ctx, s.scripts.inspect, keys)
	if !c.wait(ctx) {
		return lock.State{}, s.endError(ctx, &request{key: key})
	}
	if c.err != nil {
		return lock.State{}, redisio.Error(ctx, c.err)
	}
	state, queued, err := parseState(c.val)
	if err != nil {
		return lock.State{}, err
	}
	// The session knows each waiter of this process. Other processes' waiters are known only by the entries in Redis,
	// some of which may be this process's.
	state.Waiting = waiting + max(queued-inRedis, 0)
	return state, nil
}

// parseState parses {owner, count, ttl, token, shared, queue}. queue is the length of the queue, or the owners in it.
func parseState(val any) (state lock.State, queued int, err error) {
	reply, ok := val.([]any)
	if !ok || len(reply) != 6 {
		return lock.State{}, 0, unexpected(val)
	}
	owner, ok := reply[0].(string)
	if !ok {
		return lock.State{}, 0, unexpected(val)
	}
	if names, isList := reply[5].([]any); isList {
		for _, name := range names {
			owner, isString := name.(string)
			if !isString {
				return lock.State{}, 0, unexpected(val)
			}
			state.Queue = append(state.Queue, lock.Owner(owner))
		}
		reply[5] = int64(len(names))
	}
	var numbers [5]int64
	for i := range numbers {
		if numbers[i], ok = reply[i+1].(int64); !ok {
			return lock.State{}, 0, unexpected(val)
		}
	}
	state.Owner, state.Count, state.TTL = lock.Owner(owner), int(numbers[0]), parsePTTL(numbers[1])
	state.Token, state.Shared = uint64(numbers[2]), numbers[3] == 1
	return state, int(numbers[4]), nil
}

// ForceRelease implements [lock.ForceReleaser].
func (s *Session) ForceRelease(ctx context.Context, key string) (bool, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return false, err
	}
	c := s.batcher.run(ctx, s.scripts.forceRelease, s.keys(key), s.config.QueueEntryTTL.Milliseconds())
	if !c.wait(ctx) {
		return false, s.endError(ctx, &request{key: key})
	}
	if c.err != nil {
		return false, redisio.Error(ctx, c.err)
	}
	freed, ok := c.val.(int64)
	if !ok {
		return false, unexpected(c.val)
	}
	return freed == 1, nil
}
