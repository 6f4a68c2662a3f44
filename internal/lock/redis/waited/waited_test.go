package waited_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lock"
	"seckill/internal/lock/locktest"
	"seckill/internal/lock/redis/session"
	"seckill/internal/lock/redis/waited"
	"seckill/internal/simulate"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func open(t *testing.T, client session.Client, config waited.Config) *waited.Locker {
	t.Helper()
	l, err := waited.New(client, config)
	fail.NowIf(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// mustBeShort checks the error of an acquisition that too few replicas acknowledged.
func mustBeShort(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.Is(err, lock.ErrUnavailable) || !strings.Contains(err.Error(), want) {
		t.Errorf("Acquire = %v, want it to be unavailable: %s", err, want)
	}
}

// A lock that too few replicas acknowledge in time is released, and the caller is told that it is unavailable.
func TestReleasesWhatReplicasDoNotAcknowledge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		one := open(t, server.Client(t), waited.Config{})
		two := open(t, server.Client(t), waited.Config{Replicas: 2})
		warm, err := one.Acquire(t.Context(), "seat", lock.Options{}) // from now on the server knows the script
		fail.NowIf(t, err)
		fail.NowIf(t, warm.Release(t.Context()))
		server.SetReplicas(0)
		start := time.Now()
		_, err = one.Acquire(t.Context(), "seat", lock.Options{})
		mustBeShort(t, err, "0 of 1 replicas")
		fail.Unequal(t, time.Since(start), time.Second, "it waited for")
		server.SetReplicas(1)
		_, err = two.Acquire(t.Context(), "seat", lock.Options{})
		mustBeShort(t, err, "1 of 2 replicas")
		fail.Unequal(t, len(server.Mini().Keys()), 0, "keys that are left")
		lease, err := one.Acquire(t.Context(), "seat", lock.Options{})
		fail.NowIf(t, err)
		fail.If(t, lease.Release(t.Context()))
	})
}

// A lock that a release hands over, in this process or from another one, is acknowledged too.
func TestWaitersNeedReplicasToo(t *testing.T) {
	for name, processes := range map[string]int{"one process": 1, "two processes": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := simulate.NewRedis(t)
				holder := open(t, server.Client(t), waited.Config{})
				waiter := holder
				if processes == 2 {
					waiter = open(t, server.Client(t), waited.Config{})
				}
				held, err := holder.Acquire(t.Context(), "seat", lock.Options{})
				fail.NowIf(t, err)
				next := locktest.InBackground(t.Context(), waiter, "seat", lock.Options{Wait: time.Minute})
				simulate.Sleep(time.Second / 2)
				server.SetReplicas(0)
				fail.If(t, held.Release(t.Context()))
				mustBeShort(t, (<-next).Err, "0 of 1 replicas")
				server.SetReplicas(1)
				fail.If(t, fail.Of(holder.Acquire(t.Context(), "seat", lock.Options{})), "the key is not free")
			})
		})
	}
}

// A caller that gives up while the replicas are waited for returns at once and leaves nothing.
func TestGivesUpWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := simulate.NewRedis(t)
		l := open(t, server.Client(t), waited.Config{})
		server.SetReplicas(0)
		ctx, cancel := context.WithCancel(t.Context())
		start := time.Now()
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := l.Acquire(ctx, "seat", lock.Options{})
		fail.Unless(t, err, context.Canceled, "Acquire")
		fail.Unequal(t, time.Since(start), 100*time.Millisecond, "it returned after")
		fail.Unequal(t, len(server.Mini().Keys()), 0, "keys that are left")
	})
}

// The write that WAIT counts is one of its own connection.
func TestWaitFollowsAWriteOnItsConnection(t *testing.T) {
	client := simulate.NewRedis(t).Client(t)
	seen := &pipelines{}
	client.AddHook(seen)
	lease, err := open(t, client, waited.Config{}).Acquire(t.Context(), "seat", lock.Options{})
	fail.NowIf(t, err)
	fail.If(t, lease.Release(t.Context()))
	if len(seen.beforeWait) == 0 {
		t.Fatal("WAIT was not sent")
	}
	for _, name := range seen.beforeWait {
		if !strings.HasPrefix(name, "eval") {
			t.Errorf("ahead of WAIT %q was sent, want a renewal", name)
		}
	}
}

// pipelines notes the command ahead of each WAIT, "" for none.
type pipelines struct{ beforeWait []string }

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// ProcessPipelineHook implements [redis.Hook].
func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for i, cmd := range cmds {
			if cmd.Name() == "wait" {
				before := ""
				if i > 0 {
					before = cmds[i-1].Name()
				}
				p.beforeWait = append(p.beforeWait, before)
			}
		}
		return next(ctx, cmds)
	}
}
