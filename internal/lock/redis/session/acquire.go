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
	"seckill/internal/redisscript"
)

// acquire tries once, and then waits as long as it may.
func (s *Session) acquire(ctx context.Context, r *request, wait time.Duration) (*lock.Held, error) {
	if wait == 0 {
		return s.try(ctx, ctx, r, nil)
	}
	limit := newWaitLimit(ctx, r.start.Add(wait))
	defer limit.stop()
	// Behind other waiters of this process a first attempt would be in vain. The exception is an owner that was given:
	// it may be re-entering, and must not queue behind waiters that wait for itself.
	if _, given := lock.OwnerFrom(ctx); given || !s.waiters.expected(r) {
		held, err := s.try(ctx, limit, r, nil)
		switch {
		case !errors.Is(err, lock.ErrNotAcquired):
			return held, err
		case limit.Err() == nil: // wait
		case ctx.Err() != nil: // limit ended with ctx: the wait itself was not over
			return nil, ctx.Err()
		default:
			return nil, err
		}
	}
	return s.wait(ctx, limit.timer(), r)
}

// try makes one attempt. limit ends with ctx, or before it when the wait is over. w is the caller's place in the queue,
// nil where it has none.
func (s *Session) try(ctx, limit context.Context, r *request, w *waiter) (*lock.Held, error) {
	if s.protocol.SetNX && w == nil {
		held, err := s.trySetNX(ctx, limit, r)
		if !errors.Is(err, errNeedsScript) {
			return held, err
		}
	}
	start := time.Now()
	entry, ticket := s.waiters.queueEntry(w)
	reply, err := s.send(ctx, limit, r, func(again bool) *call {
		repetition := 0
		if again {
			repetition = 1
		}
		return s.batcher.runDirect(limit, r.mode.acquire, r.keys, string(r.owner), r.leaseID, r.ttl.Milliseconds(),
			entry, ticket, s.config.QueueEntryTTL.Milliseconds(), repetition)
	})
	if err != nil {
		return nil, err
	}
	switch reply := reply.(type) {
	case int64:
		return s.deliver(ctx, r, grant{start: start, token: uint64(reply), how: s.waiters.howGranted(w)})
	case []any:
		refusal, err := parseRefusal(r.key, reply)
		if err != nil {
			return nil, err
		}
		s.waiters.refused(w, start, refusal)
		return nil, refusal.NotAcquiredError
	}
	return nil, unexpected(reply)
}

// grant is what the server granted.
type grant struct {
	start time.Time // the lease counts from here
	token uint64
	how   lock.Handover
	// firstTTL is how long the lease lasts before its first renewal, where that is shorter than the request's TTL; else
	// 0.
	firstTTL time.Duration
}

// errNeedsScript: the lock has more than one lease, or one of the same owner.
var errNeedsScript = errors.New("SET NX cannot decide")

// trySetNX takes a free lock with SET NX. Where it is taken, the same command returns its holder.
func (s *Session) trySetNX(ctx, limit context.Context, r *request) (*lock.Held, error) {
	start := time.Now()
	reply, err := s.send(ctx, limit, r, func(bool) *call {
		c := s.batcher.do(limit, redisscript.NewCmd(context.Background(), 1,
			"set", r.lock(), r.value, "nx", "get", "px", r.ttl.Milliseconds()))
		c.wait(limit)
		return c
	})
	switch {
	case errors.Is(err, lock.ErrWrongKind):
		return nil, errNeedsScript // a hash, or no lock at all
	case err != nil:
		return nil, err
	case reply == nil: // the key did not exist
		return s.deliver(ctx, r, grant{start: start})
	}
	found, isString := reply.(string)
	_, holder, isLock := strings.Cut(found, " ")
	switch {
	case !isString:
		return nil, unexpected(reply)
	case found == r.value: // the reply to this request's first attempt was lost
		return s.deliver(ctx, r, grant{start: start})
	case !isLock || !strings.HasPrefix(found, leasePrefix) || lock.Owner(holder) == r.owner:
		return nil, errNeedsScript
	}
	return nil, &lock.NotAcquiredError{Key: r.key, Holder: lock.Owner(holder)}
}

// send sends an attempt, and repeats it once where the outcome is unknown. One that was cut does not count: its reply
// may only have been slow.
func (s *Session) send(ctx, limit context.Context, r *request, attempt func(again bool) *call) (any, error) {
	for again, last := false, false; ; again = true {
		start := time.Now()
		c := attempt(again)
		if !c.wait(limit) {
			r.pending = c
			return nil, s.endError(ctx, r)
		}
		if c.err == nil || errors.Is(c.err, redis.Nil) { // nil is a reply too
			return c.val, nil
		}
		known := redisscript.Answered(c.err) || notSent(c.err)
		if !known {
			r.unanswered.Store(true)
		}
		if c.cut && ctx.Err() != nil { // the caller was held up already
			r.cleanUpUntil = start.Add(maxCleanUpWait)
		}
		switch {
		case limit.Err() != nil:
			return nil, s.endError(ctx, r)
		case !known && !last:
			last = again || !c.cut
			continue
		case redis.HasErrorPrefix(c.err, "INVALID"): // a script's own refusal, with a sentence
			return nil, fmt.Errorf("%w: %s", lock.ErrInvalid, strings.TrimPrefix(c.err.Error(), "INVALID "))
		}
		return nil, redisio.Error(ctx, c.err)
	}
}

// endError returns the error of a wait that is over: that of ctx, that the session is closed, or else that the wait
// limit passed.
func (s *Session) endError(ctx context.Context, r *request) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case s.closing.Err() != nil:
		return fmt.Errorf("%w: %w", lock.ErrUnavailable, errClosed)
	}
	return &lock.NotAcquiredError{Key: r.key}
}

// deliver turns a grant into a lease. With an error the caller releases the grant, unless the holder was abandoned.
func (s *Session) deliver(ctx context.Context, r *request, g grant) (*lock.Held, error) {
	r.granted.Store(true)
	if err := lock.FaultsFrom(ctx).Pass(ctx, lock.AfterAcquireBeforeReply); err != nil {
		if errors.Is(err, lock.ErrAbandoned) {
			r.granted.Store(false)
			r.unanswered.Store(false)
		}
		return nil, err
	}
	if s.config.Replicas > 0 {
		if err := s.awaitReplicas(ctx, r, &g); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err // the caller is gone
	}
	return s.hold(ctx, r, g), nil
}

// refusal is the reply to an attempt that was refused.
type refusal struct {
	*lock.NotAcquiredError
	ticket   string
	requeued bool // the waiter's entry in Redis was no longer there, and was added again
}

// parseRefusal parses the reply {holder, ttl, ticket}, which a 1 may follow.
func parseRefusal(key string, reply []any) (refusal, error) {
	if len(reply) != 3 && len(reply) != 4 {
		return refusal{}, unexpected(reply)
	}
	holder, okHolder := reply[0].(string)
	ms, okTTL := reply[1].(int64)
	ticket, okTicket := reply[2].(string)
	if !okHolder || !okTTL || !okTicket {
		return refusal{}, unexpected(reply)
	}
	return refusal{
		NotAcquiredError: &lock.NotAcquiredError{Key: key, Holder: lock.Owner(holder), TTL: parsePTTL(ms)},
		ticket:           ticket, requeued: len(reply) == 4,
	}, nil
}

// parsePTTL returns the reply to PTTL as a duration.
func parsePTTL(ms int64) time.Duration {
	if ms == -1 {
		return lock.NoExpiry
	}
	return max(time.Duration(ms)*time.Millisecond, 0)
}
