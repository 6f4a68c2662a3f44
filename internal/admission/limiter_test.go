package admission

import (
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, err := NewLimiter(10, 3, 1000)
		fail.NowIf(t, err)
		for n := range 3 {
			if _, ok := l.Allow(1); !ok {
				t.Fatalf("request %d of a burst of 3 was refused", n+1)
			}
		}
		if wait, ok := l.Allow(1); ok || wait != 100*time.Millisecond {
			t.Errorf("the fourth: %v, %v; want to wait for 100ms", wait, ok)
		}
		if _, ok := l.Allow(2); !ok {
			t.Error("another user was refused")
		}
		simulate.Sleep(100 * time.Millisecond)
		if _, ok := l.Allow(1); !ok {
			t.Error("refused after the wait it was told")
		}
		if _, ok := l.Allow(1); ok {
			t.Error("refusals count as if they had been allowed")
		}
		// In the long run it is the rate, however often is asked.
		allowed := 0
		for begun := time.Now(); time.Since(begun) < 10*time.Second; simulate.Sleep(time.Millisecond) {
			if _, ok := l.Allow(3); ok {
				allowed++
			}
		}
		fail.Unequal(t, allowed, 102, "allowed in 10 s, 3 at once and 10 a second")
	})
}

func TestLimiterIsBounded(t *testing.T) {
	t.Parallel()
	l, err := NewLimiter(0.001, 1, 6400)
	fail.NowIf(t, err)
	kept := func() (n int) {
		for i := range l.shards {
			n += len(l.shards[i].due)
		}
		return n
	}
	for user := range int64(100_000) {
		if _, ok := l.Allow(user); !ok {
			t.Fatalf("user %d: refused at first", user)
		}
	}
	if n := kept(); n > 6400 || n < 3200 {
		t.Errorf("%d users in mind, want up to 6400", n)
	}
	if _, ok := l.Allow(99_999); ok {
		t.Error("the last user was forgotten")
	}
	for _, c := range []struct {
		rate         float64
		burst, users int
	}{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {2e9, 1, 1}} {
		if _, err := NewLimiter(c.rate, c.burst, c.users); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}
