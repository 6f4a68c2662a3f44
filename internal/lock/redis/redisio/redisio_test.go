package redisio_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/redisio"
)

func TestKey(t *testing.T) {
	if got, want := redisio.Key("shop:", "fair", "seat:1", ""), "shop:lock:fair:{seat:1}"; got != want {
		t.Errorf("Key = %q, want %q", got, want)
	}
	if got, want := redisio.Key("", "fair", "seat:1", "queue"), "lock:fair:{seat:1}:queue"; got != want {
		t.Errorf("Key of a part = %q, want %q", got, want)
	}
}

// reply is an error that a server gave.
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
	// The context's error, and neither its cause nor what the client made of it.
	got := redisio.Error(ended, io.EOF)
	if !errors.Is(got, context.Canceled) || errors.Is(got, context.Cause(ended)) || errors.Is(got, lock.ErrUnavailable) {
		t.Errorf("after the context ended Error = %v, want %v", got, context.Canceled)
	}
}
