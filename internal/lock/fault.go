package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"
)

// This file is for the laboratory: it injects faults into mechanisms and into the order flow. It is not part of the
// contract that a user of a lock, or the author of a new mechanism, has to know.

// WithFaults returns a context under which acquisitions, and the releases of their leases, carry out plan at the points
// that they pass. A nil plan changes nothing.
func WithFaults(ctx context.Context, plan *Faults) context.Context {
	if plan == nil {
		return ctx
	}
	return context.WithValue(ctx, faultsKey{}, plan)
}

type faultsKey struct{}

// FaultsFrom returns the plan that ctx carries, or nil.
func FaultsFrom(ctx context.Context) *Faults {
	plan, _ := ctx.Value(faultsKey{}).(*Faults)
	return plan
}

// Abandoner is a [Lease] whose holder can be made to die in an experiment. Every lease of this project is one.
type Abandoner interface {
	// Abandon leaves the lock as a holder that died does: from here on nothing is renewed, and nothing is released.
	Abandon()
}

// Abandon abandons a lease. It reports false where the lease is no [Abandoner].
func Abandon(l Lease) bool {
	a, ok := l.(Abandoner)
	if ok {
		a.Abandon()
	}
	return ok
}

// Abandon implements [Abandoner].
func (h *Held) Abandon() {
	if h.end() {
		h.cancel(ErrReleased)
	}
}

// Point names a place in the code where a fault can be injected.
type Point string

// The points, in the order in which an order passes them.
const (
	BetweenSetNXAndExpire   Point = "between-setnx-and-expire"
	AfterAcquireBeforeReply Point = "after-acquire-before-reply"
	HolderCrash             Point = "holder-crash"
	CriticalSection         Point = "critical-section"
	BeforeCommit            Point = "before-commit"
	AfterCommit             Point = "after-commit"
	BeforeRelease           Point = "before-release"
	BetweenCompareAndDelete Point = "between-compare-and-delete"
)

// Points lists all points.
func Points() []Point {
	return []Point{
		BetweenSetNXAndExpire, AfterAcquireBeforeReply, HolderCrash, CriticalSection,
		BeforeCommit, AfterCommit, BeforeRelease, BetweenCompareAndDelete,
	}
}

// Effect is what happens at a point.
type Effect string

// The effects. The pause of a fault comes first, whatever its effect.
const (
	EffectPause   Effect = "pause"   // wait, then continue
	EffectError   Effect = "error"   // fail with ErrInjected
	EffectPanic   Effect = "panic"   // panic
	EffectAbandon Effect = "abandon" // fail with ErrAbandoned: the holder is dead and releases nothing
	EffectKill    Effect = "kill"    // SIGKILL to this process
)

// Errors that an injected fault causes. Compare with errors.Is.
var (
	ErrInjected  = errors.New("lock: injected fault")
	ErrAbandoned = errors.New("lock: holder abandoned by an injected fault")
)

// MaxFaultPause bounds how long a fault may pause.
const MaxFaultPause = time.Minute

// Fault is one fault to inject.
type Fault struct {
	Point  Point  `json:"point"`
	Effect Effect `json:"effect,omitempty"` // "" is pause
	// PauseMS is how long to wait at the point before the effect, in ms.
	PauseMS int64 `json:"pause_ms,omitempty"`
	// Probability is in (0, 1]; 0 is taken as 1.
	Probability float64 `json:"probability,omitempty"`
}

// Validate returns [ErrInvalid] where a fault is malformed.
func (f Fault) Validate() error {
	switch {
	case !slices.Contains(Points(), f.Point):
		return invalid("unknown fault point %q: one of %v", f.Point, Points())
	case !slices.Contains([]Effect{"", EffectPause, EffectError, EffectPanic, EffectAbandon, EffectKill}, f.Effect):
		return invalid("unknown fault effect %q: pause, error, panic, abandon or kill", f.Effect)
	case f.PauseMS < 0 || f.PauseMS > MaxFaultPause.Milliseconds():
		return invalid("fault pause_ms is %d; 0 to %d", f.PauseMS, MaxFaultPause.Milliseconds())
	case (f.Effect == "" || f.Effect == EffectPause) && f.PauseMS == 0:
		return invalid("a fault that pauses needs pause_ms")
	case !(f.Probability >= 0 && f.Probability <= 1): // NaN too
		return invalid("fault probability is %v; 0 to 1", f.Probability)
	}
	return nil
}

// Faults is a plan: which faults to inject at which point. The nil plan does nothing.
type Faults struct {
	at     map[Point][]Fault
	random func() float64
}

// NewFaults returns a plan, or nil for no faults. random returns numbers in [0, 1) and decides on probabilities; nil
// stands for the runtime's own generator.
func NewFaults(faults []Fault, random func() float64) (*Faults, error) {
	if len(faults) == 0 {
		return nil, nil
	}
	if random == nil {
		random = rand.Float64
	}
	p := &Faults{at: make(map[Point][]Fault), random: random}
	for _, f := range faults {
		if err := f.Validate(); err != nil {
			return nil, err
		}
		p.at[f.Point] = append(p.at[f.Point], f)
	}
	return p, nil
}

// Pass is called where the code passes a point. It returns nil, [ErrInjected], [ErrAbandoned] or, where ctx ended
// during a pause, the error of ctx.
func (p *Faults) Pass(ctx context.Context, at Point) error {
	if p == nil {
		return nil
	}
	for _, f := range p.at[at] {
		if f.Probability > 0 && p.random() >= f.Probability {
			continue
		}
		if err := f.inject(ctx); err != nil {
			return err
		}
	}
	return nil
}

// PassUninterrupted is Pass for a fault that stands for a stopped process: a pause lasts its whole length, whatever
// becomes of ctx.
func (p *Faults) PassUninterrupted(ctx context.Context, at Point) error {
	if p == nil {
		return nil
	}
	return p.Pass(context.WithoutCancel(ctx), at)
}

func (f Fault) inject(ctx context.Context) error {
	if f.PauseMS > 0 {
		timer := time.NewTimer(time.Duration(f.PauseMS) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch f.Effect {
	case EffectError:
		return fmt.Errorf("%w at %s", ErrInjected, f.Point)
	case EffectPanic:
		panic(fmt.Sprintf("injected panic at %s", f.Point))
	case EffectAbandon:
		return fmt.Errorf("%w at %s", ErrAbandoned, f.Point)
	case EffectKill:
		// SIGKILL cannot be caught. The select stops this goroutine until it arrives.
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
	return nil
}
