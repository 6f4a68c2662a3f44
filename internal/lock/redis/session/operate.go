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
	waiting, listed := s.room.waiting(keys[0])
	c := s.pipe.run(ctx, s.scripts.inspect, keys)
	if !c.wait(ctx) {
		return lock.State{}, s.ended(ctx, &request{key: key})
	}
	if c.err != nil {
		return lock.State{}, redisio.Error(ctx, c.err)
	}
	state, queue, err := parseState(c.val)
	if err != nil {
		return lock.State{}, err
	}
	// Waiters of this process are known one by one, of the others only by their
	// places in the queue, of which this process may have one too.
	state.Waiting = waiting + max(queue-listed, 0)
	return state, nil
}

// parseState makes sense of {owner, count, ttl, token, shared, queue}. The queue is
// its length, or the owners in it.
func parseState(val any) (state lock.State, queue int, err error) {
	reply, ok := val.([]any)
	if !ok || len(reply) != 6 {
		return lock.State{}, 0, strange(val)
	}
	owner, ok := reply[0].(string)
	if !ok {
		return lock.State{}, 0, strange(val)
	}
	if names, isList := reply[5].([]any); isList {
		for _, name := range names {
			owner, isString := name.(string)
			if !isString {
				return lock.State{}, 0, strange(val)
			}
			state.Queue = append(state.Queue, lock.Owner(owner))
		}
		reply[5] = int64(len(names))
	}
	var numbers [5]int64
	for i := range numbers {
		if numbers[i], ok = reply[i+1].(int64); !ok {
			return lock.State{}, 0, strange(val)
		}
	}
	state.Owner, state.Count, state.TTL = lock.Owner(owner), int(numbers[0]), fromTTL(numbers[1])
	state.Token, state.Shared = uint64(numbers[2]), numbers[3] == 1
	return state, int(numbers[4]), nil
}

// ForceRelease implements [lock.Breaker].
func (s *Session) ForceRelease(ctx context.Context, key string) (bool, error) {
	if err := lock.Check(key, lock.Options{}); err != nil {
		return false, err
	}
	c := s.pipe.run(ctx, s.scripts.breaks, s.keys(key), s.config.PlaceTimeout.Milliseconds())
	if !c.wait(ctx) {
		return false, s.ended(ctx, &request{key: key})
	}
	if c.err != nil {
		return false, redisio.Error(ctx, c.err)
	}
	freed, ok := c.val.(int64)
	if !ok {
		return false, strange(c.val)
	}
	return freed == 1, nil
}
