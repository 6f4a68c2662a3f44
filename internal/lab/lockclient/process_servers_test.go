package lockclient_test

import (
	"errors"
	"testing"

	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockclient"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

func TestKilledActorAnswersNothing(t *testing.T) {
	c := play(t, "killed", testkit.KeyPrefix(t))
	ctx := soon(t)
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "setnx", Key: "k"}))
	pending := make(chan error, 3)
	for range cap(pending) {
		go func() {
			_, err := c.Acquire(ctx, lockclient.Acquire{Lock: "setnx", Key: "k", Wait: patience})
			pending <- err
		}()
	}
	testkit.Until(t, "all of them asked", func() bool { return len(c.Events()) == 2+cap(pending) })
	c.Kill()
	for range cap(pending) {
		if err := <-pending; !errors.Is(err, lockclient.ErrDead) {
			t.Errorf("pending: %v; want %v", err, lockclient.ErrDead)
		}
	}
	if err := c.Release(ctx, g.Lease); !errors.Is(err, lockclient.ErrDead) {
		t.Errorf("asked later: %v; want %v", err, lockclient.ErrDead)
	}
	var evidence judge.Evidence
	c.AddTo(&evidence)
	if len(evidence.Deaths) != 1 || evidence.Deaths[0].Process != "killed" || evidence.Deaths[0].At < g.At {
		t.Errorf("deaths %v; want that of killed, after its grant", evidence.Deaths)
	}
}

func TestFaultThatPanics(t *testing.T) {
	c := play(t, "panicking", testkit.KeyPrefix(t))
	ctx := soon(t)
	_, err := c.Acquire(ctx, lockclient.Acquire{
		Lock: "lua", Key: "k", Faults: []lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic}},
	})
	if !errors.Is(err, lockclient.ErrPanicked) {
		t.Errorf("%v; want %v", err, lockclient.ErrPanicked)
	}
	g := must[lockclient.Grant](t)(c.Acquire(ctx, lockclient.Acquire{Lock: "lua", Key: "k"}))
	ok(t, c.Release(ctx, g.Lease))
}
