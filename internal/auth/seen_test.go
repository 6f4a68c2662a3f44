package auth

import (
	"encoding/binary"
	"testing"
	"time"
)

func TestSeenIsBounded(t *testing.T) {
	var s seen
	now := time.Unix(1_800_000_000, 0)
	number := func(i int) (d digest) { binary.BigEndian.PutUint64(d[:], uint64(i)); return d }
	for i := range 3 * generation {
		s.add(number(i), bearer{userID: int64(i + 1), until: now.Add(time.Hour)})
		if _, ok := s.find(number(0), now); !ok {
			t.Fatalf("a token that is used all the time was forgotten after %d others", i)
		}
	}
	if n := len(s.young) + len(s.old); n > 2*generation {
		t.Errorf("%d tokens are remembered; at most %d", n, 2*generation)
	}
	if _, ok := s.find(number(1), now); ok {
		t.Error("a token that nobody used was not forgotten")
	}
}
