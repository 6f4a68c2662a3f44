package admission

import (
	"testing"

	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

// One call does a bounded amount of work, no matter how many users there are.
func TestSoakForgettingIsBounded(t *testing.T) {
	testkit.Soak(t)
	testkit.Servers(t)
	f := newForgetting(t, 1)
	const users = 300_000
	for from := 0; from < users; from += 10_000 {
		pairs := make([]any, 0, 20_000)
		for user := from; user < from+10_000; user++ {
			pairs = append(pairs, user, 1_000_000_000_000+user)
		}
		fail.NowIf(t, f.client.HSet(t.Context(), f.keys.Users, pairs...).Err())
	}
	f.client.ConfigSet(t.Context(), "slowlog-log-slower-than", "20000")
	f.client.SlowLogReset(t.Context())
	f.end()
	f.rounds(f.forgetter(), 4)
	if left := f.keysLeft(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	slow, err := f.client.SlowLogGet(t.Context(), 10).Result()
	if err != nil || len(slow) > 0 {
		t.Errorf("%v, %v", slow, err)
	}
}
