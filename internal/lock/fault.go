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

// Point names a place in the code where a fault can be brought about.
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

// Points lists every point there is.
func Points() []Point {
	return []Point{
		BetweenSetNXAndExpire, AfterAcquireBeforeReply, HolderCrash, CriticalSection,
		BeforeCommit, AfterCommit, BeforeRelease, BetweenCompareAndDelete,
	}
}

// Effect is what happens at a point.
type Effect string

// The effects. Pause is always applied first, whatever the effect.
const (
	EffectPause   Effect = "pause"   // wait, then go on
	EffectError   Effect = "error"   // fail with ErrInjected
	EffectPanic   Effect = "panic"   // panic
	EffectAbandon Effect = "abandon" // fail with ErrAbandoned: the holder never comes back and nothing is released
	EffectKill    Effect = "kill"    // SIGKILL to this process
)

// Faults at work. Compare with errors.Is.
var (
	ErrInjected  = errors.New("lock: injected fault")
	ErrAbandoned = errors.New("lock: holder abandoned by an injected fault")
)

// MaxFaultPause bounds how long a fault may pause.
const MaxFaultPause = time.Minute

// Fault is one thing to go wrong.
type Fault struct {
	Point  Point  `json:"point"`
	Effect Effect `json:"effect,omitempty"` // "" is pause
	// PauseMS is how long to wait at the point before the effect, in ms.
	PauseMS int64 `json:"pause_ms,omitempty"`
	// Probability is in (0, 1]; 0 is taken as 1.
	Probability float64 `json:"probability,omitempty"`
}

// Validate says with [ErrInvalid] what is wrong with a fault.
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

// Faults is a plan of what to do at which point. The nil plan does nothing.
type Faults struct {
	at     map[Point][]Fault
	random func() float64
}

// NewFaults makes a plan, or nil where there is nothing to do. random gives
// numbers in [0, 1) and decides on probabilities; nil takes the runtime's own.
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

// Pass is called where the code passes a point. It returns nil, [ErrInjected],
// [ErrAbandoned] or, when a pause was cut short, the error of ctx.
func (p *Faults) Pass(ctx context.Context, at Point) error {
	if p == nil {
		return nil
	}
	for _, f := range p.at[at] {
		if f.Probability > 0 && p.random() >= f.Probability {
			continue
		}
		if err := f.strike(ctx); err != nil {
			return err
		}
	}
	return nil
}

// PassDeaf is Pass for a point inside work that nothing can interrupt, as a
// stopped process cannot be: a pause there lasts its whole time, whatever ctx does.
func (p *Faults) PassDeaf(ctx context.Context, at Point) error {
	if p == nil {
		return nil
	}
	return p.Pass(context.WithoutCancel(ctx), at)
}

func (f Fault) strike(ctx context.Context) error {
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
		// SIGKILL cannot be caught; the select only keeps this goroutine from
		// getting any further before it arrives.
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Kill()
		}
		select {}
	}
	return nil
}
