package explore

import (
	"context"
	"testing"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/witness"
	"seckill/internal/simulate"
)

// Played is a schedule that was played.
type Played struct {
	Schedule Schedule     `json:"schedule"`
	Steps    []PlayedStep `json:"steps"`
	// Next are the steps that are possible now, within the budget.
	Next  []Choice    `json:"next"`
	Spent Budget      `json:"spent"`
	Found []Violation `json:"found"`
	// Picture shows the processes and servers up to now; nil: nothing has happened yet.
	Picture *finding.Witness `json:"picture"`
	// Proofs are the pictures of what was found, as those of an experiment.
	Proofs []finding.Witness `json:"proofs"`
}

// PlayedStep is a step in words. Spent is what the schedule has cost up to it.
type PlayedStep struct {
	Step  Step      `json:"step"`
	Says  i18n.Text `json:"says"`
	Spent Budget    `json:"spent"`
}

// Choice is a step that is possible.
type Choice struct {
	Step Step      `json:"step"`
	Says i18n.Text `json:"says"`
	Cost Budget    `json:"cost"`
}

// Play plays a schedule. The budget of c only limits what [Played.Next] offers; that of the steps is what they cost.
func Play(ctx context.Context, c Config, s Schedule) (Played, error) {
	c.Lock, c.Buyers = s.Lock, s.Buyers
	c, err := c.withDefaults()
	if err != nil {
		return Played{}, err
	}
	var p Played
	simulate.Bubble(func(t *testing.T) {
		var in place
		if in, err = bubble(t, c); err == nil {
			p, err = play(ctx, t, c, s, in)
		}
	})
	return p, err
}

// unlimited allows every step of a schedule.
func unlimited() (b Budget) {
	for i := range b {
		b[i] = MaxSteps
	}
	return b
}

func play(ctx context.Context, t cleaner, c Config, s Schedule, in place) (Played, error) {
	limit := c.Budget
	c.Budget = unlimited()
	b, err := newBed(t, c, in)
	if err != nil {
		return Played{}, err
	}
	defer b.end()
	for _, step := range s.Steps {
		if err := ctx.Err(); err != nil {
			return Played{}, err
		}
		o, err := b.find(step)
		for began := time.Now(); err != nil && in.instant > 0 && time.Since(began) < stepWithin && ctx.Err() == nil; {
			b.settle() // in real time it may be on its way
			o, err = b.find(step)
		}
		if err != nil {
			return Played{}, err
		}
		b.take(o)
	}
	p := Played{Schedule: s, Spent: b.spent, Found: b.violations()}
	for i, one := range b.steps {
		p.Steps = append(p.Steps, PlayedStep{one.Step, one.says, b.spentUntil(i + 1)})
	}
	b.config.Budget = limit
	for _, o := range b.options() {
		if b.spent.plus(o.cost).within(limit) {
			p.Next = append(p.Next, Choice{b.short(o), b.says(o), o.cost})
		}
	}
	j := judge.Judge(b.evidence())
	if w, _, ok := witness.Live(j, c.Buyers, nil); ok {
		p.Picture = &w
	}
	var kinds []finding.Kind
	for _, f := range p.Found {
		kinds = append(kinds, f.Kind)
	}
	p.Proofs = witness.Gather(witness.Proofs(j, kinds...))
	return p, nil
}

// MarshalText is the text of [Schedule.String].
func (s Schedule) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads it.
func (s *Schedule) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSchedule(string(text))
	return err
}

// MarshalText is the text of [Step.String].
func (s Step) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
