package lock_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"seckill/internal/lock"
	"seckill/internal/testkit/fail"
)

func plan(t *testing.T, random func() float64, faults ...lock.Fault) *lock.Faults {
	t.Helper()
	p, err := lock.NewFaults(faults, random)
	fail.NowIf(t, err)
	return p
}

func TestNoFaults(t *testing.T) {
	none := plan(t, nil)
	if none != nil {
		t.Error("a plan of nothing is not nil")
	}
	for _, point := range lock.Points() {
		fail.If(t, none.Pass(t.Context(), point), "%s", point)
	}
}

func TestFaultsAreInjectedAtTheirPoints(t *testing.T) {
	p := plan(t, nil,
		lock.Fault{Point: lock.BeforeCommit, Effect: lock.EffectError},
		lock.Fault{Point: lock.HolderCrash, Effect: lock.EffectAbandon},
		lock.Fault{Point: lock.CriticalSection, Effect: lock.EffectPanic})
	fail.If(t, p.Pass(t.Context(), lock.AfterCommit), "a point without a fault")
	fail.Unless(t, p.Pass(t.Context(), lock.BeforeCommit), lock.ErrInjected, "an error")
	fail.Unless(t, p.Pass(t.Context(), lock.HolderCrash), lock.ErrAbandoned, "an abandoned holder")
	defer func() {
		if recover() == nil {
			t.Error("a panic did not panic")
		}
	}()
	_ = p.Pass(t.Context(), lock.CriticalSection)
}

func TestFaultPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plan(t, nil,
			lock.Fault{Point: lock.CriticalSection, PauseMS: 300},
			lock.Fault{Point: lock.CriticalSection, PauseMS: 200, Effect: lock.EffectError})
		began := time.Now()
		fail.Unless(t, p.Pass(t.Context(), lock.CriticalSection), lock.ErrInjected, "Pass")
		fail.Unequal(t, time.Since(began), 500*time.Millisecond, "both pauses")

		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		fail.Unless(t, p.Pass(ctx, lock.CriticalSection), context.DeadlineExceeded, "Pass")
		fail.Unequal(t, time.Since(began), 100*time.Millisecond, "a pause was cut short after")

		began = time.Now()
		fail.Unless(t, p.PassUninterrupted(ctx, lock.CriticalSection), lock.ErrInjected, "PassUninterrupted")
		fail.Unequal(t, time.Since(began), 500*time.Millisecond, "the pause of PassUninterrupted, whatever the context")
	})
}

func TestFaultProbability(t *testing.T) {
	next := 0.0
	fault := lock.Fault{Point: lock.BeforeRelease, Effect: lock.EffectError, Probability: 0.25}
	p := plan(t, func() float64 { return next }, fault)
	for random, injected := range map[float64]bool{0: true, 0.2499: true, 0.25: false, 0.999: false} {
		next = random
		if err := p.Pass(t.Context(), lock.BeforeRelease); (err != nil) != injected {
			t.Errorf("random number %v, probability 0.25: %v", random, err)
		}
	}
}

func TestFaultValidate(t *testing.T) {
	right := []lock.Fault{
		{Point: lock.CriticalSection, PauseMS: 1},
		{Point: lock.CriticalSection, PauseMS: lock.MaxFaultPause.Milliseconds(), Probability: 1},
		{Point: lock.HolderCrash, Effect: lock.EffectAbandon},
	}
	for _, f := range right {
		fail.If(t, f.Validate(), "%+v", f)
	}
	wrong := map[string]lock.Fault{
		"an unknown point":          {Point: "lunch", PauseMS: 1},
		"an unknown effect":         {Point: lock.CriticalSection, Effect: "explode"},
		"a pause without a length":  {Point: lock.CriticalSection},
		"a negative pause":          {Point: lock.CriticalSection, PauseMS: -1},
		"a pause that is too long":  {Point: lock.CriticalSection, PauseMS: lock.MaxFaultPause.Milliseconds() + 1},
		"a negative probability":    {Point: lock.CriticalSection, PauseMS: 1, Probability: -0.1},
		"a probability above one":   {Point: lock.CriticalSection, PauseMS: 1, Probability: 1.1},
		"no number for probability": {Point: lock.CriticalSection, PauseMS: 1, Probability: math.NaN()},
	}
	for what, f := range wrong {
		fail.Unless(t, f.Validate(), lock.ErrInvalid, "%s: Validate", what)
		fail.Unless(t, fail.Of(lock.NewFaults([]lock.Fault{f}, nil)), lock.ErrInvalid, "%s: NewFaults", what)
	}
}

func TestDeliver(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	cases := map[string]struct {
		ctx      context.Context
		effect   lock.Effect
		want     error
		released int64
	}{
		"undisturbed": {t.Context(), "", nil, 0},
		"cancelled":   {cancelled, "", context.Canceled, 1},
		"failed":      {t.Context(), lock.EffectError, lock.ErrInjected, 1},
		"dead":        {t.Context(), lock.EffectAbandon, lock.ErrAbandoned, 0},
		// A process may survive a panic, and then nobody in it would release the lease.
		"panicking": {t.Context(), lock.EffectPanic, errPanicked, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var g grant
			var faults *lock.Faults
			if c.effect != "" {
				faults = plan(t, nil, lock.Fault{Point: lock.AfterAcquireBeforeReply, Effect: c.effect})
			}
			lease, err := deliver(lock.WithFaults(c.ctx, faults), g.hold(t.Context(), time.Time{}))
			if !errors.Is(err, c.want) || (lease == nil) != (c.want != nil) {
				t.Errorf("Deliver = %v, %v; want the error %v", lease, err, c.want)
			}
			stopped := int64(0)
			if c.want != nil {
				stopped = 1
			}
			g.mustHave(t, c.released, stopped)
		})
	}
}

var errPanicked = errors.New("panicked")

func deliver(ctx context.Context, held *lock.Held) (lease lock.Lease, err error) {
	defer func() {
		if recover() != nil {
			err = errPanicked
		}
	}()
	return lock.Deliver(ctx, held)
}
