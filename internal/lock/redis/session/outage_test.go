package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// A server that hangs holds up no caller, even if the client does not end its commands with their context. What the
// server grants when it continues is released.
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
		fail.Unless(t, fail.Of(l.Acquire(ctx, key, lock.Options{})), context.DeadlineExceeded, "Acquire with 100 ms")
		if took := time.Since(began); took > 10*time.Second { // the server hangs for longer
			t.Errorf("it took %v", took)
		}
		began = time.Now()
		fail.Unless(t, fail.Of(l.Acquire(t.Context(), key, lock.Options{Wait: time.Minute})), lock.ErrUnavailable, "Acquire")
		if took := time.Since(began); took > 20*time.Second { // the wait is a minute
			t.Errorf("it took %v to find that the server hangs", took)
		}
		server.Resume()
		until(t, "a free lock", func() bool { state, err := l.Inspect(t.Context(), key); return err == nil && state.Owner == "" })
	})
}
