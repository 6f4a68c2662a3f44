package locktest

import (
	"os"
	"time"
)

// pace is what a trial may expect of time: the one place that says how late an event may be.
type pace struct {
	// tolerance is how much later than promised an event may be: nothing in virtual time, a busy machine's delay in soak,
	// and without a bound where only the outcome counts.
	tolerance time.Duration
	// slack is how much of a lease may have passed between its grant and a look at it.
	slack time.Duration
	// limit ends a trial in which a locker hangs. It is also a wait limit that no check is meant to reach.
	limit time.Duration
	// prompt is a wait limit for callers that get the lock at once or never.
	prompt time.Duration
	// long is a lease that outlasts every trial, given a shorter one that does so too, and short one whose end a trial
	// waits for.
	long, given, short time.Duration
	// attempts is how often a check measures something of which the best attempt counts.
	attempts int
	// timed says that the check may depend on how fast the machine is.
	timed bool
	// virtual says that the trial runs in a bubble, in which only waiting takes time.
	virtual bool
}

const (
	// gone is within what time nothing is left after the last release: a subscription may stay for the next waiter.
	gone = 150 * time.Millisecond
	// lastMoment is how long a store may keep a lease beyond its TTL. Redis counts in whole milliseconds, and a key is
	// still there in the millisecond in which it ends.
	lastMoment = time.Millisecond
	// longLimit replaces the limit if [Long] asks for the full length.
	longLimit = 10 * time.Minute
)

// virtualPace is that of a bubble of testing/synctest: whatever is promised is kept to the millisecond.
func virtualPace() pace {
	return pace{
		tolerance: 0, slack: lastMoment, limit: 5 * time.Minute, prompt: 2 * time.Second,
		long: time.Hour, given: 5 * time.Second, short: 150 * time.Millisecond, attempts: 1, timed: true, virtual: true,
	}
}

// realPace is that of a machine that other programs use, with its real clock.
func realPace() pace {
	p := pace{
		tolerance: 350 * time.Millisecond, slack: 3 * time.Second, limit: 30 * time.Second, prompt: 2 * time.Second,
		long: 30 * time.Second, given: 5 * time.Second, short: 150 * time.Millisecond, attempts: 3, timed: true,
	}
	if os.Getenv(Long) != "" {
		p.limit = longLimit
	}
	return p
}

// untimedPace is that of a machine that may be as slow as it likes: leases do not end, and nothing is late.
func untimedPace() pace {
	const limit = 2 * time.Minute
	return pace{
		tolerance: limit, slack: limit, limit: limit, prompt: limit,
		long: time.Hour, given: 10 * time.Minute, short: time.Hour, attempts: 1,
	}
}

// provingBreaks is p for a behaviour that is declared to break. The check ends with the violation, and a machine that is
// late cannot hide it: so nothing is gained by waiting for long.
func (p pace) provingBreaks() pace {
	if !p.timed {
		p.tolerance, p.prompt = realPace().tolerance, realPace().prompt
	}
	return p
}

// within is the limit for something that is promised within d.
func (p pace) within(d time.Duration) time.Duration { return d + p.tolerance }

// early is by how much a lease may seem to end too early, since two clocks measure it.
func (p pace) early() time.Duration { return min(p.tolerance, 20*time.Millisecond) + lastMoment }

// margin is how much less of a lease its holder may count on: clocks drift.
func (p pace) margin(ttl time.Duration) time.Duration { return p.slack + ttl/20 }

// noticed is within what time a release or the like reaches those whom it concerns: in virtual time none passes until
// then, unless they poll.
func (p pace) noticed() time.Duration {
	if p.virtual {
		return promptly
	}
	return time.Second + p.tolerance
}
