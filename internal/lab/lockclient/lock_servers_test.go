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
	"seckill/internal/lock/lockers"
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
	if state := stored(t, prefix); state.Owner != g.Owner || state.Count != 1 {
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
	prefix := testkit.KeyPrefix(t)
	c := play(t, "slow", prefix)
	ctx := soon(t)
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", TTL: time.Second}))
	at := must[int64](t)(c.AwaitLoss(ctx, g.Lease))
	fail.Unequal(t, must[int64](t)(c.Told(ctx, g.Lease)), at, "when it was told")
	if at < g.At {
		t.Errorf("it is told at %d of the loss of a lease that it got at %d", at, g.At)
	}
	testkit.Until(t, "the key free", func() bool { return stored(t, prefix).Owner == "" }) // the holder is told slightly earlier
	if err := c.Release(ctx, g.Lease); lockclient.KindOf(err) != lockclient.Expired {
		t.Errorf("the release: %v; want %s", err, lockclient.Expired)
	}
}

func TestTimeoutIsTheAcquisitions(t *testing.T) {
	c := play(t, "hasty", testkit.KeyPrefix(t))
	ctx := soon(t)
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k"}))
	fail.Unequal(t, must[int64](t)(c.Told(ctx, g.Lease)), 0, "when it was told")
	_, err := c.Acquire(ctx, lockclient.Acquire{Lock: "reentrant", Key: "k", Wait: patience, Timeout: 50 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) || lockclient.KindOf(err) != lockclient.Deadline {
		t.Errorf("a wait beyond the context's end: %v; want %v", err, context.DeadlineExceeded)
	}
	ok(t, c.Release(ctx, g.Lease))
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
		state := stored(t, prefix)
		return state.Owner == "" && state.Waiting == 0
	})

	// The lock was granted after the caller had given up: the process was paused when it was asked.
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

// stored is what Redis holds under the key k.
func stored(t *testing.T, prefix string) lock.State {
	t.Helper()
	set := must[*lockers.Set](t)(lockers.Open(lockers.Servers{Redis: testkit.Redis(t).Client(t)}, lockers.Config{Prefix: prefix}))
	defer func() { ok(t, set.Close()) }()
	locker := must[lock.Locker](t)(set.Locker("reentrant"))
	return must[lock.State](t)(locker.(lock.Inspector).Inspect(t.Context(), "k"))
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
