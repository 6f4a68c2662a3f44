package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// seen remembers whose the tokens are that were verified lately. Verifying costs
// far more than everything else about a request that is turned away from memory,
// and in a rush the same buyers knock again and again.
//
// A token is remembered by its digest: only the very bytes that were verified
// match, no token is kept in memory, and how long the look-up takes says nothing
// about a token's content. Memory is bounded by two generations; when the young
// one is full it becomes the old one, and the old one goes.
type seen struct {
	mu         sync.RWMutex
	young, old map[digest]bearer
}

// generation is how many tokens one generation holds; a hundred bytes each.
const generation = 32 << 10

type digest = [sha256.Size]byte

type bearer struct {
	userID int64
	until  time.Time // when the token expires
}

func (s *seen) find(d digest, now time.Time) (userID int64, ok bool) {
	s.mu.RLock()
	b, young := s.young[d]
	if !young {
		b, ok = s.old[d]
	}
	s.mu.RUnlock()
	if !young && !ok || !now.Before(b.until) {
		return 0, false
	}
	if !young {
		s.add(d, b)
	}
	return b.userID, true
}

func (s *seen) add(d digest, b bearer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.young == nil || len(s.young) >= generation {
		s.old, s.young = s.young, make(map[digest]bearer)
	}
	s.young[d] = b
}
