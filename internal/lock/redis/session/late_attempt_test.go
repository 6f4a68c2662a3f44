package session_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/redis/session"
	"seckill/internal/simulate"
)

// delayer is a network that breaks a connection and delivers later what was written to it.
// It is a hook that holds back the next batch; the client sees a connection that ended.
type delayer struct {
	mu    sync.Mutex
	delay bool
	kept  [][]any
}

var _ redis.Hook = (*delayer)(nil)

func (d *delayer) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (d *delayer) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (d *delayer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if !d.keep(cmds) {
			return next(ctx, cmds)
		}
		for _, cmd := range cmds {
			cmd.SetErr(io.EOF)
		}
		return io.EOF
	}
}

func (d *delayer) keep(cmds []redis.Cmder) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.delay {
		return false
	}
	d.delay = false
	for _, cmd := range cmds {
		d.kept = append(d.kept, cmd.Args())
	}
	return true
}

func (d *delayer) keepNext() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = true
}

func (d *delayer) keeps() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.kept) > 0
}

// deliver has the server run the commands that were held back.
func (d *delayer) deliver(t *testing.T, client *redis.Client) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, args := range d.kept {
		if err := client.Do(t.Context(), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
			t.Fatal(err)
		}
	}
}

// An attempt whose connection broke may reach the server after its repetition, and even
// after the release. Whatever the acquisition returned, no lock is left.
func TestAttemptThatArrivesLate(t *testing.T) {
	fails, err := lock.NewFaults([]lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectError}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const minute = time.Minute // longer than the test waits for the key to be free
	cases := map[string]struct {
		held   bool // another holder has the lock at first
		opts   lock.Options
		faults *lock.Faults
		want   error
	}{
		"granted":                   {false, lock.Options{TTL: minute}, nil, nil},
		"granted and not delivered": {false, lock.Options{TTL: minute}, fails, lock.ErrInjected},
		"refused":                   {true, lock.Options{TTL: minute}, nil, lock.ErrNotAcquired},
		"refused after a wait":      {true, lock.Options{TTL: minute, Wait: 100 * time.Millisecond}, nil, lock.ErrNotAcquired},
		"granted after a wait":      {true, lock.Options{TTL: minute, Wait: minute}, nil, nil},
	}
	for name, c := range cases {
		bubble(t, name, func(t *testing.T) {
			server, prefix, network := simulate.NewRedis(t), "t:", &delayer{}
			holder := start(t, server, newReentrant, session.Config{Prefix: prefix})
			client := server.Client(t)
			client.AddHook(network)
			l := startOn(t, client, session.Config{Prefix: prefix})
			if err := acquire(t.Context(), t, l, lock.Options{}).Release(t.Context()); err != nil { // loads the scripts
				t.Fatal(err)
			}
			var held lock.Lease
			if c.held {
				held = acquire(t.Context(), t, holder, lock.Options{})
			}
			network.keepNext()
			got := make(chan error, 1)
			go func() {
				lease, err := l.Acquire(lock.WithFaults(t.Context(), c.faults), key, c.opts)
				if err == nil {
					err = lease.Release(t.Context())
				}
				got <- err
			}()
			until(t, "the attempt", network.keeps) // held back, and no command of this test
			if c.held && c.want == nil {
				until(t, "a waiter", func() bool { return inspect(t, l).Waiting == 1 })
			} else if err := <-got; !errors.Is(err, c.want) {
				t.Fatalf("Acquire and Release = %v, want %v", err, c.want)
			}
			if c.held {
				if err := held.Release(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if c.held && c.want == nil {
				if err := <-got; err != nil {
					t.Fatalf("Acquire and Release after a wait = %v", err)
				}
			}
			network.deliver(t, server.Client(t))
			until(t, "a free lock", func() bool { return inspect(t, holder).Owner == "" })
		})
	}
}
