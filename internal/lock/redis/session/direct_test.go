package session_test

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// senders is a hook that counts commands by who sends them.
type senders struct{ direct, queued atomic.Int64 }

func (*senders) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*senders) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (s *senders) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if stack := debug.Stack(); bytes.Contains(stack, []byte("Acquire(")) || bytes.Contains(stack, []byte("Release(")) {
			s.direct.Add(int64(len(cmds)))
		} else {
			s.queued.Add(int64(len(cmds)))
		}
		return next(ctx, cmds)
	}
}

// startDirect returns a locker on a server of its own, where the next command of a goroutine alone is sent by that
// goroutine.
func startDirect(t *testing.T, config session.Config) (*simulate.Redis, *senders, mechanism) {
	t.Helper()
	server, seen := simulate.NewRedis(t), &senders{}
	client := server.Client(t)
	client.AddHook(seen)
	l := startOn(t, client, config)
	until(t, "a pair of direct commands", func() bool {
		before, lease := seen.direct.Load(), acquire(t.Context(), t, l, lock.Options{})
		began := time.Now()
		fail.NowIf(t, lease.Release(t.Context()))
		// After a slow command the next one is queued.
		return seen.direct.Load() == before+2 && time.Since(began) < 20*time.Millisecond
	})
	return server, seen, l
}

// A direct command that the server is slow to answer is cut, and repeated in the queue. The lock is held once all the
// same, and its release leaves nothing.
func TestSlowReplyToDirectCommand(t *testing.T) {
	for name, ctx := range map[string]func(context.Context) context.Context{
		"new owner":   func(ctx context.Context) context.Context { return ctx },
		"given owner": func(ctx context.Context) context.Context { return lock.WithOwner(ctx, "someone") },
	} {
		bubble(t, name, func(t *testing.T) {
			server, seen, l := startDirect(t, session.Config{CommandTimeout: time.Minute})
			direct, queued := seen.direct.Load(), seen.queued.Load()
			server.Pause(time.Hour)
			leases, failed := make(chan lock.Lease, 1), make(chan error, 1)
			go func() {
				lease, err := l.Acquire(ctx(t.Context()), key, lock.Options{Wait: time.Minute})
				leases <- lease
				failed <- err
			}()
			until(t, "the repetition", func() bool { return seen.queued.Load() > queued })
			fail.Unequal(t, seen.direct.Load()-direct, 1, "direct commands before the repetition")
			server.Resume()
			lease := <-leases
			fail.NowIf(t, <-failed)
			if state := inspect(t, l); state.Owner != lease.Owner() || state.Count != 1 {
				t.Errorf("held by %q %d times, want once by %q", state.Owner, state.Count, lease.Owner())
			}
			fail.If(t, lease.Release(t.Context()), "Release")
			until(t, "a free lock", func() bool { return inspect(t, l).Owner == "" })
		})
	}
}

// The same for a release, whose repetition finds nothing.
func TestSlowReplyToDirectRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, seen, l := startDirect(t, session.Config{CommandTimeout: time.Minute})
		lease := acquire(t.Context(), t, l, lock.Options{})
		queued := seen.queued.Load()
		server.Pause(time.Hour)
		failed := make(chan error, 1)
		go func() { failed <- lease.Release(t.Context()) }()
		until(t, "the repetition", func() bool { return seen.queued.Load() > queued })
		server.Resume()
		fail.If(t, <-failed, "Release")
		fail.Unequal(t, inspect(t, l).Owner, "", "the holder after the release")
	})
}

// A caller that is cancelled while the server does not answer its direct command leaves without waiting for the server,
// and what the server then grants is released.
func TestCancelledDuringDirectCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, seen, l := startDirect(t, session.Config{CommandTimeout: time.Minute})
		direct := seen.direct.Load()
		server.Pause(time.Hour)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := l.Acquire(ctx, key, lock.Options{Wait: time.Minute})
			failed <- err
		}()
		until(t, "the attempt", func() bool { return seen.direct.Load() == direct+1 })
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) { // the server does not answer yet
			t.Errorf("Acquire = %v, want the context's error", err)
		}
		server.Resume()
		until(t, "a free lock", func() bool { return inspect(t, l).Owner == "" })
	})
}

// A client that does not end its commands with their context gets none from the callers: a caller could not leave.
func TestClientWithoutDeadlinesGetsNoDirectCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &senders{}
		client := withoutDeadlines(simulate.NewRedis(t))
		client.AddHook(seen)
		l := startOn(t, client, session.Config{Prefix: "t:"})
		for range 20 {
			fail.NowIf(t, acquire(t.Context(), t, l, lock.Options{}).Release(t.Context()))
		}
		fail.Unequal(t, seen.direct.Load(), 0, "direct commands")
	})
}
