package admission

import (
	"fmt"
	"sync"
	"time"
)

// Limiter bounds how often each user may ask, by the generic cell rate algorithm (ITU-T
// I.371): a user has one number, the time at which all that was asked for so far would
// have been due at the steady rate. Asking moves it on by one interval; it may be ahead
// of the clock by a burst.
//
// It is this process's alone. Its memory is bounded: of more users than it has room
// for, those whose number has passed are forgotten, which changes nothing, and if that
// is not enough any others, who may then ask a burst again.
type Limiter struct {
	interval, burst time.Duration
	started         time.Time
	room            int // of one shard
	shards          [limiterShards]limiterShard
}

const limiterShards = 64

type limiterShard struct {
	mu  sync.Mutex
	due map[int64]time.Duration // user -> time since the start
	_   [48]byte                // a cache line each
}

// NewLimiter allows each user perSecond requests in the long run and up to burst at
// once, and keeps about users of them in mind, at 40 bytes each.
func NewLimiter(perSecond float64, burst, users int) (*Limiter, error) {
	interval := time.Duration(float64(time.Second) / perSecond)
	if perSecond <= 0 || interval <= 0 || burst < 1 || users < 1 {
		return nil, fmt.Errorf("admission: a limit of %v requests a second, %d at once, for %d users", perSecond, burst, users)
	}
	l := &Limiter{
		interval: interval, burst: time.Duration(burst) * interval,
		started: time.Now(), room: max(1, users/limiterShards),
	}
	for i := range l.shards {
		l.shards[i].due = make(map[int64]time.Duration)
	}
	return l, nil
}

// Allow reports whether the user may ask now, and if not, in how long.
func (l *Limiter) Allow(userID int64) (wait time.Duration, ok bool) {
	now := time.Since(l.started)
	s := &l.shards[shardOf(userID)]
	s.mu.Lock()
	defer s.mu.Unlock()
	due, there := s.due[userID]
	due = max(due, now) + l.interval
	if early := due - l.burst; early > now {
		return early - now, false
	}
	if !there && len(s.due) >= l.room {
		s.makeRoom(now)
	}
	s.due[userID] = due
	return 0, true
}

// shardOf spreads ids that follow each other.
func shardOf(userID int64) uint64 { return uint64(userID) * 0x9e3779b97f4a7c15 >> 58 }

// makeRoom forgets at least a quarter, so that it is seldom called.
func (s *limiterShard) makeRoom(now time.Duration) {
	left := len(s.due) * 3 / 4
	for user, due := range s.due {
		if due <= now {
			delete(s.due, user)
		}
	}
	for user := range s.due {
		if len(s.due) <= left {
			return
		}
		delete(s.due, user)
	}
}
