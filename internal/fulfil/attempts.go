package fulfil

import (
	"context"
	"errors"
	"time"
)

// attempts has Redis know of a worker's attempts at entries that may crash the process, before they begin. Those that
// remain there, because they ended their processes, have the entry rejected. Those of processes that live are still
// under way, and prove nothing.
//
// That concerns only entries that were delivered suspiciously often, and only while the database takes others. During
// an outage, or while the voucher's row is locked, an attempt lasts for long, and a process that ends meanwhile says
// nothing about the entry; see watch.
type attempts struct {
	config   *Config
	reader   streamReader
	liveness *liveness
	health   *dbHealth
	// unsettled are attempts that have ended, and Redis may not know it yet.
	unsettled map[entryID]entry
}

// attemptVerdict is whether an entry may be tried.
type attemptVerdict int

const (
	attemptUnrecorded attemptVerdict = iota // it may be tried: nothing says that it crashes processes
	attemptRecorded                         // it may be tried, and Redis knows of the attempt
	attemptLater                            // not now: whether it has crashed processes is not known yet
	attemptDeadly                           // it has crashed MaxAttempts processes
)

// begin says whether an entry may be tried, and records the attempt if the entry is suspicious.
func (a *attempts) begin(ctx context.Context, e *retryEntry) (attemptVerdict, error) {
	suspicious := e.entry.deliveries > a.config.MaxDeliveries && a.health.healthy()
	if !suspicious && !e.undecided {
		return attemptUnrecorded, nil
	}
	deadly, err := a.record(ctx, e)
	if err != nil || deadly || !suspicious {
		a.end(ctx, e.entry) // with an error it may have begun, for all that Redis says
	}
	switch {
	case errors.Is(err, errNotKnownYet), errors.Is(err, errAttempted):
		e.undecided = true
		return attemptLater, nil
	case err != nil:
		return attemptLater, err
	case deadly:
		return attemptDeadly, nil
	case suspicious:
		return attemptRecorded, nil
	}
	return attemptUnrecorded, nil
}

// errAttempted: a process that lives is trying the entry.
var errAttempted = errors.New("fulfil: another process is trying the entry")

// record records an attempt. It reports whether the earlier ones of so many processes ended with their process that the
// entry is to blame.
//
// Its error is errAttempted while a process that lives is trying the entry. So attempts follow each other, and
// processes that are killed at the same moment are one attempt and not several. An attempt that lasts for longer than
// ClaimIdle is not waited for: Redis may have forgotten its end in a failover.
func (a *attempts) record(ctx context.Context, e *retryEntry) (deadly bool, err error) {
	others, err := a.reader.beginAttempt(ctx, e.entry, a.liveness.attempter())
	if err != nil || len(others) == 0 {
		return false, err
	}
	ended, alive, err := a.liveness.attempters(ctx, others)
	if err != nil {
		return false, err
	}
	before := e.awaited
	e.awaited = map[string]time.Time{}
	for _, process := range alive {
		since, awaited := before[process]
		if !awaited {
			since = time.Now()
		}
		if e.awaited[process] = since; time.Since(since) < a.config.ClaimIdle {
			err = errAttempted
		}
	}
	return err == nil && ended >= a.config.MaxAttempts, err
}

// watch returns the function that ends a recorded attempt. Redis knows that the attempt has ended as soon as it takes
// for longer than outageAfter: it waits for the database then, and a process that is killed meanwhile was not crashed
// by the entry.
func (a *attempts) watch(ctx context.Context, e entry) (ended func()) {
	recorded := make(chan struct{})
	timer := time.AfterFunc(outageAfter, func() {
		defer close(recorded)
		_ = a.reader.endAttempt(context.WithoutCancel(ctx), e, a.liveness.attempter()) // end follows
	})
	return func() {
		if !timer.Stop() {
			<-recorded
		}
		a.end(ctx, e)
	}
}

// end records that an attempt has ended, or did not take place. If Redis does not answer, settle repeats that.
func (a *attempts) end(ctx context.Context, e entry) {
	if a.reader.endAttempt(context.WithoutCancel(ctx), e, a.liveness.attempter()) != nil {
		a.unsettled[e.key()] = e
	} else {
		delete(a.unsettled, e.key())
	}
}

// settle records the ends of attempts that Redis may not know. It stops when Redis does not answer.
func (a *attempts) settle(ctx context.Context) {
	for key, e := range a.unsettled {
		if a.reader.endAttempt(ctx, e, a.liveness.attempter()) != nil {
			return
		}
		delete(a.unsettled, key)
	}
}
