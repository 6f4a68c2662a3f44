package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/redisscript"
)

// maxCleanUpWait is how long a failed acquisition waits for its own clean-up. A healthy server needs a fraction of it,
// so that nothing is left when Acquire returns; an unhealthy one must not hold up a caller that has given up.
const maxCleanUpWait = 250 * time.Millisecond

// cleanUpTime is what is left of maxCleanUpWait for all parts of the clean-up of r.
func (r *request) cleanUpTime() time.Duration {
	if r.cleanUpUntil.IsZero() {
		r.cleanUpUntil = time.Now().Add(maxCleanUpWait)
	}
	return time.Until(r.cleanUpUntil)
}

// lateReplyWait is how long a clean-up waits for the reply to the attempt itself.
const lateReplyWait = 50 * time.Millisecond

// A clean-up continues while the server does not answer, but for no longer than maxCleanUp. After the first answer it
// continues for lock.ReleaseTimeout: by then the server has read the commands that were on their way. It starts at once
// and backs off to one command in maxCleanUpPause.
const (
	maxCleanUp      = time.Minute
	maxCleanUpPause = 500 * time.Millisecond
)

// cleanUp revokes what the server granted to r, or may yet grant. r makes no further attempt. Where that takes longer
// than cleanUpTime it continues in the background.
func (s *Session) cleanUp(r *request) {
	done := make(chan struct{})
	if !s.background(func() { s.revoke(r, sync.OnceFunc(func() { close(done) })) }) {
		return // nothing can be sent any more
	}
	timer := time.NewTimer(r.cleanUpTime())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// revoke releases the lease of r until it is certain that the server has not granted it.
//
// It first waits briefly for the pending attempt: a release that overtakes the attempt finds nothing and leaves
// everything. Where an attempt had no reply, its command may still be on the way, so the reply "not found" proves
// nothing. Where two attempts were sent, "released" proves nothing either: it may concern one of them. The release is
// then repeated until the time is over. onAnswer is called at the first answer, at the latest when revoke returns.
func (s *Session) revoke(r *request, onAnswer func()) {
	defer onAnswer()
	late := r.pending != nil
	if late && !r.unanswered.Load() {
		moment, cancel := context.WithTimeout(s.closing, lateReplyWait)
		ended := r.pending.wait(moment)
		cancel()
		// A handover may have granted the lock whatever the reply to the attempt was.
		if ended && !r.granted.Load() && (notSent(r.pending.err) || refused(r.pending)) {
			return
		}
		late = !ended || !redisscript.Answered(r.pending.err)
	}
	ctx, cancel := context.WithCancel(s.closing)
	defer cancel()
	end := time.AfterFunc(maxCleanUp, cancel)
	defer end.Stop()
	heard := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, maxCleanUpPause) {
		c := s.batcher.run(ctx, s.scripts.release, r.keys, string(r.owner), r.leaseID,
			"", "", 0, 0, s.config.QueueEntryTTL.Milliseconds(), "") // without a handover
		if !c.wait(ctx) {
			return
		}
		if redisscript.Answered(c.err) {
			onAnswer()
			if c.err == nil && !r.unanswered.Load() && (!late || c.val == int64(released) || c.val == int64(releasedOne)) {
				return
			}
			if !heard {
				heard = true
				end.Reset(lock.ReleaseTimeout)
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// refused reports whether the reply to an attempt was a refusal.
func refused(c *call) bool {
	switch {
	case errors.Is(c.err, redis.Nil): // SET NX set the key
		return false
	case c.err != nil:
		return redisscript.Answered(c.err)
	}
	_, granted := c.val.(int64)
	return !granted
}
