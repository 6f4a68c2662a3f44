package fulfil

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// liveness sends the heartbeats of this process, and compares the pending entries of the groups with what its workers know
// of and with the processes that are alive: no worker's call fails if a promoted replica lacks the latest acknowledgements,
// or if another process dies. It is safe for use by several goroutines.
type liveness struct {
	config  *Config
	reader  streamReader
	streams *watchList
	// incarnation tells this process from one of the same name before it.
	incarnation string
	// since is since when the heartbeat key has been there without a break, for all that is known; nil if it may not be
	// there.
	since atomic.Pointer[time.Time]
	// pending is the latest count of pending entries; nil before the first one.
	pending atomic.Pointer[pendingEntries]
}

// missedHeartbeats is after how many intervals without a heartbeat a process counts as dead. That does no harm to a
// process that is only slow: both processes write the same rows, and the second write changes nothing.
const missedHeartbeats = 3

// pendingEntries are the pending entries of the groups at one moment.
type pendingEntries struct {
	// counts are the numbers of entries by stream and consumer.
	counts map[*stream]map[string]int64
	// dead are the consumers whose process is dead.
	dead map[string]bool
}

// start calls beat periodically until stop is called.
func (l *liveness) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { every(ctx, l.config.HeartbeatEvery, func() { l.beat(ctx) }) })
	return func() {
		cancel()
		running.Wait()
		// Without this, others would claim the unfinished entries only after the key's time to live.
		_ = l.reader.removeHeartbeat(context.Background(), l.key(l.config.Name))
	}
}

// beat renews the process's heartbeat key and counts the pending entries. Errors are those of Redis, which the workers
// report.
func (l *liveness) beat(ctx context.Context) {
	renewed, err := l.reader.setHeartbeat(ctx, l.key(l.config.Name), l.incarnation, l.ttl())
	switch _, answered := errors.AsType[redis.Error](err); {
	case err != nil && !answered:
		l.since.Store(nil)
		return
	case err != nil: // its memory is full, but it can still tell what is pending
		l.since.Store(nil)
	case !renewed || l.since.Load() == nil:
		now := time.Now()
		l.since.Store(&now)
	}
	counts, _ := l.reader.countPending(ctx, l.streams.watched())
	keys := map[string]bool{}
	for _, consumers := range counts {
		for consumer := range consumers {
			keys[l.key(processOf(consumer))] = true
		}
	}
	pending := &pendingEntries{counts: counts, dead: map[string]bool{}}
	alive, err := l.reader.alive(ctx, slices.Collect(maps.Keys(keys)))
	known := err == nil // else assume that all are alive
	for _, consumers := range counts {
		for consumer := range consumers {
			process := processOf(consumer)
			pending.dead[consumer] = known && process != l.config.Name && alive[l.key(process)] == ""
		}
	}
	l.pending.Store(pending)
}

// attempter is the name under which this process records its attempts.
func (l *liveness) attempter() string { return l.config.Name + ":" + l.incarnation }

// errNotKnownYet: which processes are alive is only known when each of them has had the time for a heartbeat, since
// this process began, or Redis came back, perhaps without the keys.
var errNotKnownYet = errors.New("fulfil: which processes are alive is not known yet")

// attempters counts those of some attempts whose processes have ended, and returns those whose processes live. Attempts
// of another version are neither.
func (l *liveness) attempters(ctx context.Context, attempts []string) (ended int64, alive []string, err error) {
	if since := l.since.Load(); since == nil || time.Since(*since) < l.ttl() {
		return 0, nil, errNotKnownYet
	}
	incarnations := map[string]string{} // by heartbeat key
	for _, attempt := range attempts {
		if i := strings.LastIndexByte(attempt, ':'); i >= 0 {
			incarnations[l.key(attempt[:i])] = ""
		}
	}
	if incarnations, err = l.reader.alive(ctx, slices.Collect(maps.Keys(incarnations))); err != nil {
		return 0, nil, err
	}
	for _, attempt := range attempts {
		switch i := strings.LastIndexByte(attempt, ':'); {
		case i < 0:
		case incarnations[l.key(attempt[:i])] == attempt[i+1:]:
			alive = append(alive, attempt)
		default:
			ended++
		}
	}
	return ended, alive, nil
}

// key is the key that exists while a process is alive. Its value is the process's incarnation.
func (l *liveness) key(process string) string {
	return l.config.Prefix + "fulfil:alive:" + process
}

func (l *liveness) ttl() time.Duration { return missedHeartbeats * l.config.HeartbeatEvery }

// processOf returns the name of a consumer's process: consumers are named "<process>-<n>".
func processOf(consumer string) string {
	if n := strings.LastIndexByte(consumer, '-'); n >= 0 {
		return consumer[:n]
	}
	return consumer
}
