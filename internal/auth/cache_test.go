package auth

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestCacheIsBounded(t *testing.T) {
	var c cache
	now := time.Unix(1_800_000_000, 0)
	number := func(i int) (d digest) { binary.BigEndian.PutUint64(d[:], uint64(i)); return d }
	for i := range 3 * generation {
		c.add(number(i), user{id: int64(i + 1), expires: now.Add(time.Hour)})
		if _, ok := c.find(number(0), now); !ok {
			t.Fatalf("a token in constant use was dropped after %d others", i)
		}
	}
	if n := len(c.young) + len(c.old); n > 2*generation {
		t.Errorf("the cache holds %d tokens, want at most %d", n, 2*generation)
	}
	if _, ok := c.find(number(1), now); ok {
		t.Error("an unused token is still in the cache")
	}
}
