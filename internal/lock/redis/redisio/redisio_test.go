package redisio_test

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestKey(t *testing.T) {
	fail.Unequal(t, redisio.Key("shop:", "fair", "seat:1", ""), "shop:lock:fair:{seat:1}")
	fail.Unequal(t, redisio.Key("", "fair", "seat:1", "queue"), "lock:fair:{seat:1}:queue")
}

// reply is an error that a server returned.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestError(t *testing.T) {
	alive := t.Context()
	ended, end := context.WithCancelCause(t.Context())
	end(errors.New("the reason"))
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"no error":               {alive, nil, nil},
		"no value":               {alive, redis.Nil, redis.Nil},
		"another kind of value":  {alive, reply("WRONGTYPE Operation against a key"), lock.ErrWrongKind},
		"the server's own error": {alive, reply("LOADING Redis is loading"), lock.ErrUnavailable},
		"the network's error":    {alive, io.EOF, lock.ErrUnavailable},
		"no value, too late":     {ended, redis.Nil, redis.Nil},
	} {
		if got := redisio.Error(c.ctx, c.err); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%s: Error = %v, want %v", name, got, c.want)
		}
	}
	// The error of the context, not its cause, and not the client's error.
	got := redisio.Error(ended, io.EOF)
	if !errors.Is(got, context.Canceled) || errors.Is(got, context.Cause(ended)) || errors.Is(got, lock.ErrUnavailable) {
		t.Errorf("after the context ended Error = %v, want %v", got, context.Canceled)
	}
}

func TestInspect(t *testing.T) {
	client := redis.NewClient(testkit.AnyRedis(t))
	defer client.Close()
	prefix := testkit.KeyPrefix(t)
	set := func(name, value string, ttl time.Duration) string {
		fail.NowIf(t, client.Set(t.Context(), prefix+name, value, ttl).Err())
		return prefix + name
	}
	for name, c := range map[string]struct {
		key  string
		want lock.State
	}{
		"free":        {prefix + "free", lock.State{}},
		"without end": {set("endless", "p:1", 0), lock.State{Owner: "p:1", Count: 1, TTL: lock.NoExpiry}},
		"with an end": {set("lease", "p:2", time.Minute), lock.State{Owner: "p:2", Count: 1, TTL: time.Minute}},
	} {
		got, err := redisio.Inspect(t.Context(), client, c.key)
		if got.TTL > 50*time.Second && got.TTL <= time.Minute {
			got.TTL = time.Minute
		}
		if c.want.Waiting = lock.WaitingUnknown; err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
	list := prefix + "list"
	fail.NowIf(t, client.LPush(t.Context(), list, "1").Err())
	fail.Unless(t, fail.Of(redisio.Inspect(t.Context(), client, list)), lock.ErrWrongKind, "a list")
	ended, end := context.WithCancel(t.Context())
	end()
	fail.Unless(t, fail.Of(redisio.Inspect(ended, client, list)), context.Canceled, "after the context ended")
}
