package session_test

import (
	"errors"
	"testing"
	"time"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
	"seckill/internal/testkit/fail"
)

// An attempt whose connection broke may reach the server after its repetition, and even after the release. Whatever the
// acquisition returned, no lock is left.
func TestAttemptThatArrivesLate(t *testing.T) {
	fails, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectError}}, nil)
	fail.NowIf(t, err)
	const ttl, minute = time.Hour, time.Minute // a key is waited for until it is free, for a minute
	cases := map[string]struct {
		held   bool // another holder has the lock at first
		opts   lock.Options
		faults *lock.Faults
		want   error
	}{
		"granted":                   {false, lock.Options{TTL: ttl}, nil, nil},
		"granted and not delivered": {false, lock.Options{TTL: ttl}, fails, lock.ErrInjected},
		"refused":                   {true, lock.Options{TTL: ttl}, nil, lock.ErrNotAcquired},
		"refused after a wait":      {true, lock.Options{TTL: ttl, Wait: 100 * time.Millisecond}, nil, lock.ErrNotAcquired},
		"granted after a wait":      {true, lock.Options{TTL: ttl, Wait: minute}, nil, nil},
	}
	for name, c := range cases {
		bubble(t, name, func(t *testing.T) {
			server, config := simulate.NewRedis(t), session.Config{Prefix: "t:"}
			holder := start(t, server, newReentrant, config)
			l, network := process(t, server, newReentrant, config)
			if err := acquire(t.Context(), t, l, lock.Options{}).Release(t.Context()); err != nil { // loads the scripts
				t.Fatal(err)
			}
			var held lock.Lease
			if c.held {
				held = acquire(t.Context(), t, holder, lock.Options{})
			}
			late := network.delayCommand(t)
			got := make(chan error, 1)
			go func() {
				lease, err := l.Acquire(lock.WithFaults(t.Context(), c.faults), key, c.opts)
				if err == nil {
					err = lease.Release(t.Context())
				}
				got <- err
			}()
			<-late.reached
			if c.held && c.want == nil {
				until(t, "a waiter", func() bool { return inspect(t, l).Waiting == 1 })
			} else if err := <-got; !errors.Is(err, c.want) {
				t.Fatalf("Acquire and Release = %v, want %v", err, c.want)
			}
			if c.held {
				fail.NowIf(t, held.Release(t.Context()))
			}
			if c.held && c.want == nil {
				fail.NowIf(t, <-got, "Acquire and Release after a wait")
			}
			late.deliver(t, server.Client(t))
			until(t, "a free lock", func() bool { return inspect(t, holder).Owner == "" })
		})
	}
}
