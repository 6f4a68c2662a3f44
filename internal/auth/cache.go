package auth

import (
	"crypto/sha256"
	"sync"
	"time"
)

// cache remembers the users of recently verified tokens. Verifying a token costs far more than the rest of a request
// that is refused from memory, and in a rush the same buyers send many requests.
//
// The key is the token's digest. So only the very bytes that were verified match, no token is kept in memory, and the
// time of a look-up does not depend on a token's content. Two generations bound the memory: when the young one is full
// it becomes the old one, and the old one is dropped.
type cache struct {
	mu         sync.RWMutex
	young, old map[digest]user
}

// generation is the number of tokens in one generation, about 100 bytes each.
const generation = 32 << 10

type digest = [sha256.Size]byte

type user struct {
	id      int64
	expires time.Time // when the token expires
}

func (c *cache) find(d digest, now time.Time) (userID int64, ok bool) {
	c.mu.RLock()
	u, young := c.young[d]
	if !young {
		u, ok = c.old[d]
	}
	c.mu.RUnlock()
	if !young && !ok || !now.Before(u.expires) {
		return 0, false
	}
	if !young {
		c.add(d, u)
	}
	return u.id, true
}

func (c *cache) add(d digest, u user) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young == nil || len(c.young) >= generation {
		c.old, c.young = c.young, make(map[digest]user)
	}
	c.young[d] = u
}
