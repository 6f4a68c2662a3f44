package lockjudge

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lock/locktest"
)

// ErrBroken means that a promise of the lock breaks, or the behaviour that was the goal.
var ErrBroken = errors.New("the lock breaks")

// Judgement is all that was found out about a lock.
type Judgement struct {
	Name, Engine string
	Took         time.Duration // of the behaviours
	Results      []Judged
	Sales        []finding.Result
	// Goal is the behaviour that decides; "": all that the lock promises.
	Goal locktest.Behaviour
	// Since says what has changed since the lock was judged before.
	Since []string
}

// find returns the result of a behaviour.
func (j *Judgement) find(name locktest.Behaviour) Judged {
	i := slices.IndexFunc(j.Results, func(r Judged) bool { return r.Behaviour == name })
	if i < 0 {
		return Judged{Behaviour: name, Untried: "it was not asked for"}
	}
	return j.Results[i]
}

// broken names what decides against the lock.
func (j *Judgement) broken() (what []string) {
	if j.Goal != "" {
		if r := j.find(j.Goal); r.Broke() || r.Untried != "" {
			what = append(what, string(j.Goal))
		}
		return what
	}
	for _, r := range j.Results {
		if r.Counts() {
			what = append(what, string(r.Behaviour))
		}
	}
	for i := range j.Sales {
		if s := &j.Sales[i]; s.Observed == finding.Breaks && (s.ID != SaleOneLate || !j.find(locktest.SurvivesLongHold).LeftOut) {
			what = append(what, "the sale in which "+s.Title)
		}
	}
	return what
}

// Headline says in a line how the lock was judged.
func (j *Judgement) Headline() string {
	broken := j.broken()
	switch r := j.find(j.Goal); {
	case j.Goal != "" && r.Untried != "":
		return fmt.Sprintf("%s: %s was not tried: %s", j.Name, j.Goal, firstLine(r.Untried))
	case j.Goal != "" && r.Broke():
		return fmt.Sprintf("%s: %s breaks", j.Name, j.Goal)
	case j.Goal != "":
		return fmt.Sprintf("%s: %s holds", j.Name, j.Goal)
	case len(broken) == 0:
		return j.Name + " holds what it promises"
	}
	return fmt.Sprintf("%s breaks what it promises: %s", j.Name, strings.Join(broken, ", "))
}

// Err is [ErrBroken] with what broke; nil if nothing did that decides.
func (j *Judgement) Err() error {
	broken := j.broken()
	if len(broken) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBroken, strings.Join(broken, "; "))
}

// State is how each behaviour came out, to be compared with the next time.
func (j *Judgement) State() map[locktest.Behaviour]string {
	state := map[locktest.Behaviour]string{}
	for _, r := range j.Results {
		switch {
		case r.Untried != "": // says nothing
		case r.Broke():
			state[r.Behaviour] = "breaks"
		default:
			state[r.Behaviour] = "holds"
		}
	}
	return state
}

// Compare fills in what has changed since a [Judgement.State]; nil: there is none.
func (j *Judgement) Compare(before map[locktest.Behaviour]string) {
	if before == nil {
		return
	}
	now := j.State()
	for _, r := range j.Results {
		if was, is := before[r.Behaviour], now[r.Behaviour]; was != "" && is != "" && was != is {
			j.Since = append(j.Since, fmt.Sprintf("%s %s now", r.Behaviour, is))
		}
	}
	if len(j.Since) == 0 {
		j.Since = []string{"nothing has changed"}
	}
}
