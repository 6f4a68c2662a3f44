package reentrant

import (
	"context"
	"sync"
	"time"

	"seckill/internal/lock"
)

// promptly is how long an acquisition that failed waits for its own clean-up. A
// server that is well needs a fraction of it, so that nothing is left when
// Acquire returns; one that is not must not hold up a caller who has given up.
const promptly = 250 * time.Millisecond

// brief is how long a clean-up waits for the reply to the attempt itself.
const brief = 50 * time.Millisecond

// giveBack takes away what the server may have granted to r. pending is an attempt
// that may still end, or nil; unknown says that one before it had no answer. The
// work goes on in the background, on time of its own, where it is not done promptly.
func (l *Locker) giveBack(r *request, pending *call, unknown bool) {
	done := make(chan struct{})
	l.clean.Go(func() { l.settle(r, pending, unknown, sync.OnceFunc(func() { close(done) })) })
	timer := time.NewTimer(promptly)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// settle first gives the pending attempt a moment, since a release that overtakes
// it would find nothing and leave everything. Where an attempt had no answer, its
// command may still be on the way: "not there" then settles nothing, and the
// release is repeated for a while. done is called at the first answer.
func (l *Locker) settle(r *request, pending *call, unknown bool, done func()) {
	defer done()
	ctx, cancel := context.WithTimeout(l.closing, lock.ReleaseTimeout)
	defer cancel()
	if pending != nil && !unknown {
		moment, cancel := context.WithTimeout(ctx, brief)
		ended := pending.wait(moment)
		cancel()
		if ended && (never(pending.err) || refused(pending)) {
			return
		}
		unknown = !ended || !answered(pending.err)
	}
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		c := l.pipe.run(ctx, l.scripts.release, r.lock, r.channel, string(r.owner), r.lease)
		if !c.wait(ctx) {
			return
		}
		if c.err == nil {
			done()
			if !unknown || c.val == int64(1) {
				return
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// refused reports that an attempt to acquire was answered with a no.
func refused(c *call) bool {
	_, taken := c.val.([]any)
	return answered(c.err) && (c.err != nil || taken)
}
