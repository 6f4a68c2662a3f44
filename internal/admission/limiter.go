package admission

import (
	"fmt"
	"sync"
	"time"
)

// Limiter bounds how often each user may send a request, by the generic cell rate algorithm (ITU-T I.371). Each user
// has one number: the time at which all requests so far would have been due at the steady rate. A request moves it on
// by one interval. It may be ahead of the clock by a burst.
//
// A limiter counts the requests of this process only. Its memory is bounded: if there are more users than it has room
// for, it drops users whose number has passed, which changes nothing. If that is not enough it drops any others, who
// may then send a burst again.
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

// NewLimiter allows each user perSecond requests in the long run and up to burst at once. It remembers at most that
// many users, at 40 bytes each.
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

// Allow reports whether the user may send a request now and, if not, how long the user must wait.
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

// Return takes back one request that [Limiter.Allow] has allowed and that turned out to cost nothing.
func (l *Limiter) Return(userID int64) {
	s := &l.shards[shardOf(userID)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if due, there := s.due[userID]; there {
		s.due[userID] = due - l.interval
	}
}

// shardOf spreads consecutive ids over the shards.
func shardOf(userID int64) uint64 { return uint64(userID) * 0x9e3779b97f4a7c15 >> 58 }

// makeRoom drops at least a quarter of the users, so that it is seldom called.
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
