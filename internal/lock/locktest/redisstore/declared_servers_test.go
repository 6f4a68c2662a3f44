package redisstore

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/testkit"
)

func TestUndeclaredKeysAreFound(t *testing.T) {
	tests := map[string]struct {
		script string
		keys   []string
		wrong  string // a part of the error; empty if there is none
	}{
		"declared":      {"redis.call('TIME'); return redis.call('GET', KEYS[1])", []string{"a{x}"}, ""},
		"built inside":  {"return redis.call('GET', KEYS[1] .. ':more')", []string{"a{x}"}, `get with "a{x}:more"`},
		"second of two": {"return redis.call('DEL', KEYS[1], 'b{x}')", []string{"a{x}"}, `del with "b{x}"`},
		"two tags":      {"return redis.call('DEL', KEYS[1], KEYS[2])", []string{"a{x}", "a{y}"}, "one hash tag"},
		"no tag":        {"return redis.call('GET', KEYS[1])", []string{"a"}, "one hash tag"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			lines, client := monitored(t, func(server *testkit.RedisServer) {
				for range 2 { // the second time by EVALSHA
					if err := redis.NewScript(test.script).Run(t.Context(), server.Client(t),
						test.keys).Err(); err != nil && !errors.Is(err, redis.Nil) {
						t.Fatal(err)
					}
				}
			})
			wrong, calls := undeclared(t.Context(), client, lines)
			if calls < 2 {
				t.Errorf("%d calls were seen, want at least 2", calls)
			}
			all := strings.Join(wrong, "; ")
			if (test.wrong == "") != (all == "") || !strings.Contains(all, test.wrong) {
				t.Errorf("found %q, want %q", all, test.wrong)
			}
		})
	}
}
