package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

// acquire tries once, and then waits as long as it may.
func (s *Session) acquire(ctx context.Context, r *request, wait time.Duration) (*lock.Held, error) {
	// Whoever would only stand behind others of this process need not ask Redis.
	// An owner that was given may be re-entering: it must not stand in line
	// behind those who wait for itself.
	if wait == 0 {
		return s.try(ctx, ctx, r, nil)
	}
	limit, cancel := context.WithDeadline(ctx, r.begun.Add(wait))
	defer cancel()
	if _, given := lock.OwnerFrom(ctx); given || !s.room.busy(r) {
		held, err := s.try(ctx, limit, r, nil)
		if !errors.Is(err, lock.ErrNotAcquired) || limit.Err() != nil {
			return held, err
		}
	}
	return s.wait(ctx, limit, r)
}

// try asks once. limit ends at the same time as ctx or before, when the wait is
// over; w is the caller's place in line, nil where it has none.
func (s *Session) try(ctx, limit context.Context, r *request, w *waiter) (*lock.Held, error) {
	if s.protocol.Plain && w == nil {
		held, err := s.tryPlain(ctx, limit, r)
		if !errors.Is(err, errNotPlain) {
			return held, err
		}
	}
	start := time.Now()
	member, ticket := s.room.place(w)
	reply, err := s.ask(ctx, limit, r, func(again bool) *call {
		repetition := 0
		if again {
			repetition = 1
		}
		return s.pipe.run(limit, r.side.acquire, r.keys, string(r.owner), r.lease, r.ttl.Milliseconds(),
			member, ticket, s.config.PlaceTimeout.Milliseconds(), repetition)
	})
	if err != nil {
		return nil, err
	}
	switch reply := reply.(type) {
	case int64:
		return s.deliver(ctx, r, grant{start: start, token: uint64(reply)})
	case []any:
		refused, ticket, err := refusal(r.key, reply)
		if err != nil {
			return nil, err
		}
		s.room.refused(w, start, refused, ticket)
		return nil, refused
	}
	return nil, strange(reply)
}

// grant is what the server granted.
type grant struct {
	start time.Time // from when the lease counts
	token uint64
	// first is how long the lease runs before the first renewal, where that is
	// less than it would be: a lock that was passed on is granted for a moment.
	first time.Duration
}

// errNotPlain: the key holds more than one lease, or one of the same owner.
var errNotPlain = errors.New("not a plain lock")

// tryPlain takes a free lock with SET NX, and learns from the same command who has
// it where it is taken.
func (s *Session) tryPlain(ctx, limit context.Context, r *request) (*lock.Held, error) {
	start := time.Now()
	value := r.lease + " " + string(r.owner)
	reply, err := s.ask(ctx, limit, r, func(bool) *call {
		c := s.pipe.send(limit, newOnce(1, "set", r.lock(), value, "nx", "get", "px", r.ttl.Milliseconds()))
		c.wait(limit)
		return c
	})
	switch {
	case errors.Is(err, lock.ErrWrongKind):
		return nil, errNotPlain // a script finds out what it is
	case err != nil:
		return nil, err
	case reply == nil: // there was nothing before
		return s.deliver(ctx, r, grant{start: start})
	}
	found, isString := reply.(string)
	_, holder, plain := strings.Cut(found, " ")
	switch {
	case !isString:
		return nil, strange(reply)
	case found == value: // this very request: the reply to its first attempt was lost
		return s.deliver(ctx, r, grant{start: start})
	case !plain || !strings.HasPrefix(found, leasePrefix) || lock.Owner(holder) == r.owner:
		return nil, errNotPlain
	}
	return nil, &lock.NotAcquiredError{Key: r.key, Holder: lock.Owner(holder)}
}

// ask sends an attempt, a second time where the outcome of the first is unknown.
func (s *Session) ask(ctx, limit context.Context, r *request, send func(again bool) *call) (any, error) {
	for again := false; ; again = true {
		c := send(again)
		if !c.wait(limit) {
			r.pending = c
			return nil, s.ended(ctx, r)
		}
		if c.err == nil || errors.Is(c.err, redis.Nil) { // nil is an answer too
			return c.val, nil
		}
		known := answered(c.err) || never(c.err)
		if !known {
			r.unanswered.Store(true)
		}
		switch {
		case !known && !again:
			continue
		case limit.Err() != nil:
			return nil, s.ended(ctx, r)
		case redis.HasErrorPrefix(c.err, "INVALID"): // a script's own refusal, with a sentence
			return nil, fmt.Errorf("%w: %s", lock.ErrInvalid, strings.TrimPrefix(c.err.Error(), "INVALID "))
		}
		return nil, redisio.Error(ctx, c.err)
	}
}

// ended says why a wait is over: ctx, the session, or else its limit.
func (s *Session) ended(ctx context.Context, r *request) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closing.Err() != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	}
	return &lock.NotAcquiredError{Key: r.key}
}

// deliver turns a grant into a lease. What is not delivered is given back; only a
// lock that was abandoned stays as it is.
func (s *Session) deliver(ctx context.Context, r *request, g grant) (*lock.Held, error) {
	r.granted.Store(true)
	if err := r.faults.Pass(ctx, lock.AfterAcquireBeforeReply); err != nil {
		if errors.Is(err, lock.ErrAbandoned) {
			r.granted.Store(false)
			r.unanswered.Store(false)
		}
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err // too late to be of use to anybody
	}
	return s.lease(ctx, r, g), nil
}

// refusal makes sense of {owner, ttl, ticket}.
func refusal(key string, reply []any) (refused *lock.NotAcquiredError, ticket string, err error) {
	if len(reply) != 3 {
		return nil, "", strange(reply)
	}
	holder, okHolder := reply[0].(string)
	ms, okTTL := reply[1].(int64)
	ticket, okTicket := reply[2].(string)
	if !okHolder || !okTTL || !okTicket {
		return nil, "", strange(reply)
	}
	return &lock.NotAcquiredError{Key: key, Holder: lock.Owner(holder), TTL: fromTTL(ms)}, ticket, nil
}

// fromTTL is what PTTL replies, as a duration.
func fromTTL(ms int64) time.Duration {
	if ms == -1 {
		return lock.NoExpiry
	}
	return max(time.Duration(ms)*time.Millisecond, 0)
}
