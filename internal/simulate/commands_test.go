package simulate_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

func TestConditionalCommands(t *testing.T) {
	conditionalCommands(t, simulate.NewRedis(t).Client(t))
}

// conditionalCommands checks what DELIFEQ and SET IFEQ reply and do. commands_servers_test.go asks a real server the
// same.
func conditionalCommands(t *testing.T, client *redis.Client) {
	const value, list, none = "key", "list", "none"
	fail.NowIf(t, client.RPush(t.Context(), list, 1).Err())
	for _, c := range []struct {
		command []any
		want    string // the reply; an error by its first word
		left    string // what the key has then
	}{
		{[]any{"delifeq", value, "other"}, "0", "mine"},
		{[]any{"set", value, "new", "ifeq", "other"}, "nil", "mine"},
		{[]any{"set", value, "new", "ifeq", "other", "get"}, "mine", "mine"},
		{[]any{"set", value, "new", "ifeq", "mine", "get", "px", 5000}, "mine", "new"},
		{[]any{"set", value, "mine", "px", 5000, "ifeq", "new"}, "OK", "mine"},
		{[]any{"set", value, "new", "nx", "ifeq", "mine"}, "ERR", "mine"},
		{[]any{"set", value, "new", "ifeq", "mine", "px", 0}, "ERR", "mine"},
		{[]any{"set", value, "new", "ifeq"}, "ERR", "mine"},
		{[]any{"set", value, "ifeq", "xx"}, "OK", "ifeq"}, // the third word is the value, whatever it is
		{[]any{"delifeq", value, "mine"}, "1", ""},
		{[]any{"delifeq", value}, "ERR", "mine"},
		{[]any{"delifeq", none, "mine"}, "0", "mine"},
		{[]any{"set", none, "new", "ifeq", "mine", "get"}, "nil", "mine"},
		{[]any{"exists", none}, "0", "mine"},
		{[]any{"delifeq", list, "mine"}, "WRONGTYPE", "mine"},
		{[]any{"set", list, "new", "ifeq", "mine", "get"}, "WRONGTYPE", "mine"},
	} {
		fail.NowIf(t, client.Set(t.Context(), value, "mine", time.Minute).Err())
		if c.command[0] == "set" && c.want == "OK" && c.left == "mine" {
			fail.NowIf(t, client.Set(t.Context(), value, "new", time.Minute).Err())
		}
		reply, err := client.Do(t.Context(), c.command...).Result()
		got := fmt.Sprint(reply)
		switch {
		case errors.Is(err, redis.Nil):
			got = "nil"
		case err != nil:
			_, _ = fmt.Sscan(err.Error(), &got)
		}
		fail.Unequal(t, got, c.want, "%v", c.command)
		fail.Unequal(t, client.Get(t.Context(), value).Val(), c.left, "after %v the key", c.command)
		short := client.PTTL(t.Context(), value).Val() <= 5*time.Second
		if want := c.want == "mine" && c.left == "new" || c.want == "OK" && c.left == "mine" || c.left == "" || c.left == "ifeq"; short != want {
			t.Errorf("%v: a new end of the key: %v, want %v", c.command, short, want)
		}
	}
}

// WAIT counts the replicas that a test says there are. It waits for others until its time is over.
func TestWait(t *testing.T) {
	server := simulate.NewRedis(t)
	client := server.Client(t)
	for _, c := range []struct{ replicas, want int }{{0, 0}, {1, 1}, {2, 2}} {
		server.SetReplicas(c.replicas)
		fail.Unequal(t, client.Do(t.Context(), "WAIT", 1, 5).Val(), any(int64(c.want)), "WAIT with %d replicas", c.replicas)
	}
	if err := client.Do(t.Context(), "WAIT", "one", 5).Err(); err == nil {
		t.Error("WAIT one: no error")
	}
}
