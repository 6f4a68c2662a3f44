package fulfil

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// An entry can be pending without any worker processing it. Two cases cause no error in
// any worker:
//
//	cause                                                     the entry is pending at
//	a promoted replica lacks the latest acknowledgements      a live worker that has finished it
//	the process of its worker has died                        a dead worker
//
// So each process sends heartbeats, and compares the pending entries of the groups with
// what its workers know of and with the processes that are alive.

// missedHeartbeats is after how many intervals without a heartbeat a process counts as
// dead. That does no harm to a process that is only slow: both processes write the same
// rows, and the second write changes nothing.
const missedHeartbeats = 3

// pendingEntries are the pending entries of the groups at one moment.
type pendingEntries struct {
	// counts are the numbers of entries by stream and consumer.
	counts map[*stream]map[string]int64
	// dead are the consumers whose process is dead.
	dead map[string]bool
}

// startHeartbeat calls heartbeat periodically until stop is called.
func (f *Fulfiller) startHeartbeat() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { every(ctx, f.config.HeartbeatEvery, func() { f.heartbeat(ctx) }) })
	return func() {
		cancel()
		running.Wait()
		// Without this, others would claim the unfinished entries only after heartbeatTTL.
		_ = f.reader.removeHeartbeat(context.Background(), f.heartbeatKey(f.config.Name))
	}
}

// heartbeat renews the process's heartbeat key and counts the pending entries. Errors are
// those of Redis, which the workers report.
func (f *Fulfiller) heartbeat(ctx context.Context) {
	renewed, err := f.reader.setHeartbeat(ctx, f.heartbeatKey(f.config.Name), f.incarnation, f.heartbeatTTL())
	switch _, answered := errors.AsType[redis.Error](err); {
	case err != nil && !answered:
		f.heartbeatSince.Store(nil)
		return
	case err != nil: // its memory is full, but it can still tell what is pending
		f.heartbeatSince.Store(nil)
	case !renewed || f.heartbeatSince.Load() == nil:
		now := time.Now()
		f.heartbeatSince.Store(&now)
	}
	counts, _ := f.reader.countPending(ctx, *f.watched.Load())
	keys := map[string]bool{}
	for _, consumers := range counts {
		for consumer := range consumers {
			keys[f.heartbeatKey(processOf(consumer))] = true
		}
	}
	pending := &pendingEntries{counts: counts, dead: map[string]bool{}}
	alive, err := f.reader.alive(ctx, slices.Collect(maps.Keys(keys)))
	known := err == nil // else assume that all are alive
	for _, consumers := range counts {
		for consumer := range consumers {
			process := processOf(consumer)
			pending.dead[consumer] = known && process != f.config.Name && alive[f.heartbeatKey(process)] == ""
		}
	}
	f.pending.Store(pending)
}

// attempter is the name under which this process records its attempts.
func (f *Fulfiller) attempter() string { return f.config.Name + ":" + f.incarnation }

// errNotKnownYet: which processes are alive is only known when each of them has had the time for a heartbeat, since
// this process began, or Redis came back, perhaps without the keys.
var errNotKnownYet = errors.New("fulfil: which processes are alive is not known yet")

// attempters counts those of some attempts whose processes have ended, and returns those whose processes live. Attempts
// of another version are neither.
func (f *Fulfiller) attempters(ctx context.Context, attempts []string) (ended int64, alive []string, err error) {
	if since := f.heartbeatSince.Load(); since == nil || time.Since(*since) < f.heartbeatTTL() {
		return 0, nil, errNotKnownYet
	}
	incarnations := map[string]string{} // by heartbeat key
	for _, attempt := range attempts {
		if i := strings.LastIndexByte(attempt, ':'); i >= 0 {
			incarnations[f.heartbeatKey(attempt[:i])] = ""
		}
	}
	if incarnations, err = f.reader.alive(ctx, slices.Collect(maps.Keys(incarnations))); err != nil {
		return 0, nil, err
	}
	for _, attempt := range attempts {
		switch i := strings.LastIndexByte(attempt, ':'); {
		case i < 0:
		case incarnations[f.heartbeatKey(attempt[:i])] == attempt[i+1:]:
			alive = append(alive, attempt)
		default:
			ended++
		}
	}
	return ended, alive, nil
}

// heartbeatKey is the key that exists while a process is alive. Its value is the process's incarnation.
func (f *Fulfiller) heartbeatKey(process string) string {
	return f.config.Prefix + "fulfil:alive:" + process
}

func (f *Fulfiller) heartbeatTTL() time.Duration { return missedHeartbeats * f.config.HeartbeatEvery }

// processOf returns the name of a consumer's process: consumers are named "<process>-<n>".
func processOf(consumer string) string {
	if n := strings.LastIndexByte(consumer, '-'); n >= 0 {
		return consumer[:n]
	}
	return consumer
}
