package session_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A server that hangs holds up no caller, even if the client does not end its commands with
// their context. What the server grants when it continues is released.
func TestServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		client := withoutDeadlines(server)
		l := startOn(t, client, session.Config{CommandTimeout: time.Second})
		fail.NowIf(t, acquire(t.Context(), t, l, lock.Options{}).Release(t.Context()))
		server.Pause(time.Hour)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := l.Acquire(ctx, key, lock.Options{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire with 100 ms = %v, want the context's error", err)
		}
		if took := time.Since(began); took > 10*time.Second { // the server hangs for longer
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		if _, err := l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute}); !errors.Is(err, lock.ErrUnavailable) {
			t.Errorf("Acquire = %v, want ErrUnavailable", err)
		}
		if took := time.Since(began); took > 20*time.Second { // the wait is a minute
			t.Errorf("it took %v to find that the server hangs", took)
		}
		server.Resume()
		until(t, "a free lock", func() bool { state, err := l.Inspect(t.Context(), key); return err == nil && state.Owner == "" })
	})
}
