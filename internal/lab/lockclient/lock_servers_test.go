package lockclient_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lock"
	"seckill/internal/testkit"
	"seckill/internal/testkit/fail"
)

func TestTwoActorsShareALock(t *testing.T) {
	prefix := testkit.KeyPrefix(t)
	c, b := play(t, "first", prefix), play(t, "second", prefix)
	ctx := soon(t)

	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", Who: "buyer 1"}))
	if g.Owner == "" || g.Lease == "" || g.Asked == 0 || g.At < g.Asked {
		t.Errorf("the grant is %+v", g)
	}
	const wait = 300 * time.Millisecond // enough for one answer of Redis, which names the holder
	refused, err := b.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", Wait: wait})
	if !errors.Is(err, lock.ErrNotAcquired) || lockclient.KindOf(err) != lockclient.NotAcquired {
		t.Fatalf("the other one gets %v; want %v", err, lock.ErrNotAcquired)
	}
	if refusal, is := errors.AsType[*lock.NotAcquiredError](err); !is || refusal.Holder != g.Owner {
		t.Errorf("the refusal is %#v; want one that names %s", refusal, g.Owner)
	}
	if refused.Waited() < wait || refused.Lease != "" {
		t.Errorf("the refusal's times are %+v; want a wait of %v, and no lease", refused, wait)
	}
	if state := must[lock.State](t)(b.Inspect(ctx, "reentrant", "k")); state.Owner != g.Owner || state.Count != 1 {
		t.Errorf("the store has %+v; want %s once", state, g.Owner)
	}

	waiting := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", Wait: patience})
		waiting <- err
	}()
	ok(t, c.Release(ctx, g.Lease))
	ok(t, <-waiting)
	if err := c.Release(ctx, g.Lease); !errors.Is(err, lock.ErrNotHeld) {
		t.Errorf("a second release: %v; want %v", err, lock.ErrNotHeld)
	}

	var kinds []eventlog.Kind
	for _, e := range c.Events() {
		if e.Process != "first" || e.Who != "buyer 1" || e.Key != "k" {
			t.Errorf("event %+v; want one of first, by buyer 1, about k", e)
		}
		kinds = append(kinds, e.Kind)
	}
	if want := []eventlog.Kind{eventlog.Acquiring, eventlog.Acquired, eventlog.Releasing, eventlog.Released}; !slices.Equal(kinds[:min(4, len(kinds))], want) {
		t.Errorf("the event log begins with %v; want %v", kinds, want)
	}
}

func TestLeaseRunsOut(t *testing.T) {
	c := play(t, "slow", testkit.KeyPrefix(t))
	ctx := soon(t)
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", TTL: patience}))
	ok(t, c.Extend(ctx, g.Lease, time.Second)) // shorter is allowed too
	if s := must[lockclient.Status](t)(c.Status(ctx, g.Lease)); !s.Held || s.Remaining <= 0 || s.Cause != nil || s.NotifiedAt != 0 {
		t.Errorf("the status is %+v; want held, with something left", s)
	}
	s := must[lockclient.Status](t)(c.AwaitLoss(ctx, g.Lease))
	if s.Held || s.Cause == nil || !errors.Is(s.Cause, lock.ErrExpired) || s.NotifiedAt < g.At {
		t.Errorf("the status is %+v; want the lease expired, and told so", s)
	}
	testkit.Until(t, "the key free", func() bool { // the holder is told slightly earlier
		return must[lock.State](t)(c.Inspect(ctx, "reentrant", "k")).Owner == ""
	})
	if err := c.Release(ctx, g.Lease); lockclient.KindOf(err) != lockclient.Expired {
		t.Errorf("the release: %v; want %s", err, lockclient.Expired)
	}
}

func TestTimeoutIsTheAcquisitions(t *testing.T) {
	c := lockclient.Start(t, lockclient.Config{
		Name: "hasty", Prefix: testkit.KeyPrefix(t), RedisAddrs: []string{testkit.Redis(t).Addr()}, Untraced: true,
	})
	ctx := soon(t)
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k"}))
	_, err := c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", Wait: patience, Timeout: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || lockclient.KindOf(err) != lockclient.Deadline {
		t.Errorf("a wait beyond the context's end: %v; want %v", err, context.DeadlineExceeded)
	}
	ok(t, c.Release(ctx, g.Lease))
	fail.Unequal(t, len(c.Events()), 0, "events of an untraced actor")
}

func TestRequestThatIsTakenBack(t *testing.T) {
	prefix := testkit.KeyPrefix(t)
	c := play(t, "patient", prefix)
	ctx := soon(t)
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k"}))

	given, giveUp := context.WithTimeout(ctx, 50*time.Millisecond)
	defer giveUp()
	if _, err := c.Acquire(given, lockclient.Acquire{Lock: "reentrant", Key: "k", Wait: patience}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("given up: %v; want %v", err, context.DeadlineExceeded)
	}
	ok(t, c.Release(ctx, g.Lease))
	testkit.Until(t, "the key free, and nobody waiting for it", func() bool {
		state := must[lock.State](t)(c.Inspect(ctx, "reentrant", "k"))
		return state.Owner == "" && state.Waiting == 0
	})

	// The lock was granted after the caller had given up: the process was paused when it was
	// asked.
	c.Pause()
	given, giveUp = context.WithTimeout(ctx, 20*time.Millisecond)
	defer giveUp()
	if _, err := c.Acquire(given, lockclient.Acquire{Lock: "reentrant", Key: "k"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("given up: %v; want %v", err, context.DeadlineExceeded)
	}
	c.Resume()
	b := play(t, "next", prefix)
	g = must[lockclient.Grant](t)(b.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", Wait: patience}))
	ok(t, b.Release(ctx, g.Lease))
}

// patience limits a step that should take no time.
const patience = 30 * time.Second

// soon is a context for steps that should take no time.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// play starts a client on the shared Redis.
func play(t *testing.T, name string, prefix string) *lockclient.Client {
	t.Helper()
	return lockclient.Start(t, lockclient.Config{Name: name, Prefix: prefix, RedisAddrs: []string{testkit.Redis(t).Addr()}})
}

// must returns the result of a step that must succeed.
func must[R any](t *testing.T) func(R, error) R {
	return func(r R, err error) R {
		t.Helper()
		fail.NowIf(t, err)
		return r
	}
}

// ok checks a step that must succeed.
func ok(t *testing.T, err error) {
	t.Helper()
	fail.NowIf(t, err)
}
