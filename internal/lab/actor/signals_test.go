package actor_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"seckill/internal/lab/actor"
	"seckill/internal/lab/judge"
	"seckill/internal/lock"
	"seckill/internal/testkit"
)

func TestPausedHolderIsRobbedAndToldWhenItGoesOn(t *testing.T) {
	prefix := testkit.KeyPrefix(t)
	a, b := play(t, "paused", prefix), play(t, "next", prefix)
	ctx := soon(t)
	g := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "reentrant", Key: "k", TTL: 500 * time.Millisecond}))
	a.Pause()

	asked, giveUp := context.WithTimeout(ctx, 50*time.Millisecond)
	defer giveUp()
	if _, err := a.Status(asked, g.Lease); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a paused process answers (%v)", err)
	}
	next := must[actor.Grant](t)(b.Acquire(ctx, actor.Acquire{Lock: "reentrant", Key: "k", Wait: patience}))
	a.Resume()
	if s := must[actor.Status](t)(a.AwaitLoss(ctx, g.Lease)); s.ToldAt < next.At {
		t.Errorf("it was told at %d, before the next one had it at %d", s.ToldAt, next.At)
	}
	if err := a.Release(ctx, g.Lease); !errors.Is(err, lock.ErrLost) {
		t.Errorf("its release: %v; want %v", err, lock.ErrLost)
	}

	var evidence judge.Evidence
	a.AddTo(&evidence)
	b.AddTo(&evidence)
	if len(evidence.Pauses) != 1 || len(evidence.Deaths) != 0 {
		t.Fatalf("pauses %v, deaths %v; want one and none", evidence.Pauses, evidence.Deaths)
	}
	if p := evidence.Pauses[0]; p.Process != "paused" || p.From < g.At || p.To < next.At {
		t.Errorf("the pause is %+v; want it from after %d to after %d", p, g.At, next.At)
	}
}

func TestKilledActorAnswersNothing(t *testing.T) {
	a := play(t, "killed", testkit.KeyPrefix(t))
	ctx := soon(t)
	g := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "setnx", Key: "k"}))
	pending := make(chan error, 3)
	for range cap(pending) {
		go func() {
			_, err := a.Acquire(ctx, actor.Acquire{Lock: "setnx", Key: "k", Wait: patience})
			pending <- err
		}()
	}
	until(t, "all of them asked", func() bool { return len(a.Events()) == 2+cap(pending) })
	a.Kill()
	for range cap(pending) {
		if err := <-pending; !errors.Is(err, actor.ErrDead) {
			t.Errorf("pending: %v; want %v", err, actor.ErrDead)
		}
	}
	if err := a.Release(ctx, g.Lease); !errors.Is(err, actor.ErrDead) {
		t.Errorf("asked later: %v; want %v", err, actor.ErrDead)
	}
	var evidence judge.Evidence
	a.AddTo(&evidence)
	if len(evidence.Deaths) != 1 || evidence.Deaths[0].Process != "killed" || evidence.Deaths[0].At < g.At {
		t.Errorf("deaths %v; want that of killed, after its grant", evidence.Deaths)
	}
}

func TestFaultThatKills(t *testing.T) {
	a := play(t, "crashing", testkit.KeyPrefix(t))
	_, err := a.Acquire(soon(t), actor.Acquire{
		Lock: "setnx-expire", Key: "k",
		Faults: []lock.Fault{{Point: lock.BetweenSetNXAndExpire, Effect: lock.EffectKill}},
	})
	if !errors.Is(err, actor.ErrDead) {
		t.Errorf("%v; want %v", err, actor.ErrDead)
	}
	var evidence judge.Evidence
	until(t, "the death noted", func() bool { evidence = judge.Evidence{}; a.AddTo(&evidence); return len(evidence.Deaths) == 1 })
}

func TestFaultThatPanics(t *testing.T) {
	a := play(t, "panicking", testkit.KeyPrefix(t))
	ctx := soon(t)
	_, err := a.Acquire(ctx, actor.Acquire{
		Lock: "lua", Key: "k", Faults: []lock.Fault{{Point: lock.AfterAcquireBeforeReply, Effect: lock.EffectPanic}},
	})
	if !errors.Is(err, actor.ErrPanicked) {
		t.Errorf("%v; want %v", err, actor.ErrPanicked)
	}
	g := must[actor.Grant](t)(a.Acquire(ctx, actor.Acquire{Lock: "lua", Key: "k"}))
	ok(t, a.Release(ctx, g.Lease))
}

// failing notes that a test would have failed, and ends what called it.
type failing struct {
	*testing.T
	said string
}

func (f *failing) Fatalf(format string, _ ...any) {
	f.said = format
	panic(f)
}

func TestConfigurationThatIsWrong(t *testing.T) {
	for name, config := range map[string]actor.Config{
		"no name":       {},
		"two databases": {Name: "a", MySQLDSN: "x", SQLite: "y"},
		"no database":   {Name: "a", MySQLDSN: "nobody@tcp(127.0.0.1:1)/none"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &failing{T: t}
			defer func() {
				if recover() != f || f.said == "" {
					t.Error("it started")
				}
			}()
			actor.Start(f, config)
		})
	}
}
