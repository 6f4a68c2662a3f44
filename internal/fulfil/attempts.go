package fulfil

import (
	"context"
	"errors"
	"time"
)

// attempts records in Redis, before they begin, a worker's attempts at entries that may crash the process. An entry is
// rejected if the processes of several attempts died before they had ended them. An attempt of a process that lives is
// still under way, and proves nothing.
//
// That concerns only entries that were delivered suspiciously often, and only while the database takes other entries.
// During an outage, or while the voucher's row is locked, an attempt lasts for long, and a process that ends meanwhile
// says nothing about the entry; see watch.
type attempts struct {
	config   *Config
	reader   streamReader
	liveness *liveness
	health   *dbHealth
	// unsettled are attempts that have ended, and Redis may not know it yet.
	unsettled map[entryID]entry
}

var (
	// errAttempted: a process that lives is trying the entry.
	errAttempted = errors.New("fulfil: another process is trying the entry")
	// errDeadly: the entry is to blame. It is the detail of a dead letter with the reason [Deadly].
	errDeadly = errors.New("fulfil: several processes ended during attempts at the entry, and not when others were written")
)

// begin records an attempt at a suspicious entry, and returns the function that ends it. Its error is errDeadly, or
// errAttempted or errNotKnownYet while that is undecided, or one of Redis.
func (a *attempts) begin(ctx context.Context, e *retryEntry) (end func(), err error) {
	suspicious := e.entry.deliveries > a.config.MaxDeliveries && a.health.healthy()
	if !suspicious && !e.undecided {
		return func() {}, nil
	}
	if err = a.record(ctx, e); err == nil && suspicious {
		return a.watch(ctx, e.entry), nil
	}
	a.end(ctx, e.entry) // with an error it may have begun, for all that Redis says
	return func() {}, err
}

// record records an attempt. Its error is errDeadly if the attempts of MaxAttempts processes ended with their process.
// It is errAttempted while a process that lives is trying the entry. So attempts follow each other, and processes that
// are killed at the same moment count as one attempt. An attempt that lasts for longer than ClaimIdle is not waited
// for: Redis may have forgotten its end in a failover.
func (a *attempts) record(ctx context.Context, e *retryEntry) error {
	others, err := a.reader.beginAttempt(ctx, e.entry, a.liveness.attempter())
	if err != nil || len(others) == 0 {
		return err
	}
	ended, alive, err := a.liveness.attempters(ctx, others)
	if err != nil {
		return err
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
	if err == nil && ended >= a.config.MaxAttempts {
		return errDeadly
	}
	return err
}

// watch returns the function that ends a recorded attempt. If the attempt takes longer than outageAfter, watch tells
// Redis that it has ended: the attempt waits for the database then, and if its process is killed meanwhile, the entry
// did not crash it.
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
