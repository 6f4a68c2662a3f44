package explore

import (
	"errors"
	"slices"
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A schedule comes to the same on a redis-server in real time: what breaks, and what holds.
func TestPlayOn(t *testing.T) {
	testkit.Servers(t)
	for _, text := range []string{
		"naive~2~s1-q1-r1-t-s2-q2-r2-w1-q1",                 // two holders, and a wrong release
		"uuid~2~s1-q1-r1-w1-q1-t-s2-q2-r2-r1-q1",            // between GET and DEL
		"lua~2~s1-q1-r1-t-s2-q2-r2-w2-q2-r2-w1",             // a stale write
		"setnx-expire~2~s1-q1-k1-s2",                        // a key that is stuck
		"lua~2~s1-q1-r1-z1-e1-s2-q2-r2-g1-w1",               // a server that has forgotten the holder
		"lua~2~s1-q1-r1-s2-q2-r2-w1-q1-r1-t-q2-r2-w2-q2-r2", // holds
		"reentrant~2~s1-q1-r1-k1-s2-q2-r2-t-t",              // holds
		"fair~2~s1-q1-r1-s2-q2-r2-q2-q2.2-x2.2-w1-q1-r1",    // holds
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			s, err := ParseSchedule(text)
			fail.NowIf(t, err)
			virtual, err := Play(t.Context(), Config{}, s)
			fail.NowIf(t, err)
			real, err := PlayOn(t.Context(), Config{}, s, testkit.NewRedis(t).Addr())
			fail.NowIf(t, err)
			if !slices.Equal(real.Found, virtual.Found) {
				t.Errorf("on a server %v, in virtual time %v", real.Found, virtual.Found)
			}
		})
	}
}

func TestPlayOnRefuses(t *testing.T) {
	for _, text := range []string{"naive~2~s1-q1-j1", "red~2~s1"} {
		s, err := ParseSchedule(text)
		fail.NowIf(t, err)
		if _, err := PlayOn(t.Context(), Config{}, s, "127.0.0.1:1"); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", s, err)
		}
	}
}
