package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
)

// promptly is how long an acquisition that failed waits for its own clean-up. A
// server that is well needs a fraction of it, so that nothing is left when
// Acquire returns; one that is not must not hold up a caller who has given up.
const promptly = 250 * time.Millisecond

// promptly is what is left of the time that the caller of r waits for its clean-up,
// all parts of it together.
func (r *request) promptly() time.Duration {
	if r.prompt.IsZero() {
		r.prompt = time.Now().Add(promptly)
	}
	return time.Until(r.prompt)
}

// brief is how long a clean-up waits for the reply to the attempt itself.
const brief = 50 * time.Millisecond

// A clean-up goes on while the server does not answer, at most for hanging, and
// then for lock.ReleaseTimeout: what the server still has to read, it has read by
// then. It asks at once and ever less often, up to every pause.
const (
	hanging = time.Minute
	pause   = 500 * time.Millisecond
)

// giveBack takes away what the server granted to r, or may yet grant. r is over:
// it does not try again. The work goes on in the background, on time of its own,
// where it is not done promptly.
func (s *Session) giveBack(r *request) {
	done := make(chan struct{})
	if !s.background(func() { s.settle(r, sync.OnceFunc(func() { close(done) })) }) {
		return // nothing can be sent any more
	}
	timer := time.NewTimer(r.promptly())
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// settle first gives the pending attempt a moment, since a release that overtakes
// it would find nothing and leave everything. Where an attempt had no answer, its
// command may still be on the way: "not there" then settles nothing. Where there
// were two, neither does "given back", which may have been one of them alone. The
// release is repeated until the time is over. done is called at the first answer.
func (s *Session) settle(r *request, done func()) {
	defer done()
	late := r.pending != nil
	if late && !r.unanswered.Load() {
		moment, cancel := context.WithTimeout(s.closing, brief)
		ended := r.pending.wait(moment)
		cancel()
		// What a hand-over granted is there whatever the attempt was told.
		if ended && !r.granted.Load() && (never(r.pending.err) || refused(r.pending)) {
			return
		}
		late = !ended || !answered(r.pending.err)
	}
	ctx, cancel := context.WithCancel(s.closing)
	defer cancel()
	end := time.AfterFunc(hanging, cancel)
	defer end.Stop()
	heard := false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, pause) {
		c := s.pipe.run(ctx, s.scripts.release, r.keys, string(r.owner), r.lease, "", "", 0, 0, s.config.PlaceTimeout.Milliseconds(), "")
		if !c.wait(ctx) {
			return
		}
		if answered(c.err) {
			done()
			if c.err == nil && !r.unanswered.Load() && (!late || c.val == int64(givenBack) || c.val == int64(stillHeld)) {
				return
			}
			if !heard {
				heard = true
				end.Reset(lock.ReleaseTimeout)
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// refused reports that an attempt to acquire was answered with a no.
func refused(c *call) bool {
	switch {
	case errors.Is(c.err, redis.Nil): // SET NX found nothing, and set it
		return false
	case c.err != nil:
		return answered(c.err)
	}
	_, granted := c.val.(int64)
	return !granted
}
