package course

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/byhand"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/lockjudge"
	"seckill/internal/lab/testbed"
)

const (
	// handLimit is how long a script may take.
	handLimit = 3 * time.Minute
	// settled is how much later than a move what is known so far has it.
	settled = 300 * time.Millisecond
)

// byHand replays a script on new processes.
func (c *Checker) byHand(ctx context.Context, t Task, answer string) (Outcome, error) {
	setup, moves, err := byhand.ReadFile(strings.NewReader(answer))
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	switch made := strings.Count(moves, ".") + 1; {
	case setup.Lock != t.Lock:
		return Outcome{Says: []i18n.Text{i18n.F("It is a script with the lock %s, not with %s.", setup.Lock, t.Lock)}}, nil
	case made > t.Most:
		return Outcome{Says: []i18n.Text{i18n.F("It has %d moves; %d at most.", made, t.Most)}}, nil
	}
	moved := make(chan struct{}, 1)
	bench, err := byhand.New(setup, moves, func() {
		select {
		case moved <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	ctx, stop := context.WithTimeout(ctx, handLimit)
	defer stop()
	var found judge.Judgement
	judged := false
	skipped, err := c.Env.WithRigFor(ctx, handLimit, "by hand", setup.Needs(), func(r *testbed.Rig) {
		watches := r.Go(func() {
			defer stop()
			for !replayed(bench.State()) {
				select {
				case <-moved:
				case <-r.Context().Done():
					return
				}
			}
			r.Sleep(settled)
			seen := r.SoFar()
			seen.LockStore, seen.Database = testbed.LockStore(setup.Lock), setup.Database()
			found, judged = judge.Look(seen), true
		})
		bench.Play(r)
		watches()
	})
	switch {
	case !skipped.IsZero():
		return Outcome{}, errors.New(skipped.String())
	case !judged && err != nil:
		return Outcome{}, err
	case bench.State().Stopped:
		return Outcome{Says: []i18n.Text{i18n.F("The script could not be replayed to its end: one of its moves was not possible.")}}, nil
	case found.Anomalies[t.Aim] == 0:
		return Outcome{Says: []i18n.Text{i18n.F("This is not seen in it: %s.", titleOf(t.Aim))}}, nil
	}
	return Outcome{Done: true, Right: true, Answer: answer, Says: []i18n.Text{i18n.F("Seen: %s.", titleOf(t.Aim))}}, nil
}

// replayed reports whether a script has been replayed, and all of its moves have ended.
func replayed(s byhand.State) bool {
	waits := slices.ContainsFunc(s.Turns, func(t byhand.Turn) bool { return t.Told == "" })
	return s.Stopped || s.Ready && !s.Replaying && !waits
}

// repair judges a lock: the behaviour that its mistake broke has to hold, and whatever else it promised before.
func (c *Checker) repair(ctx context.Context, t Task, answer string) (Outcome, error) {
	one := mustTemplate(t.Template)
	command, remove, err := lockjudge.BuildSource(ctx, answer)
	if err != nil {
		return Outcome{Says: []i18n.Text{i18n.F("It cannot be built: %s", err.Error())}}, nil
	}
	defer remove()
	var results []lockjudge.Judged
	_, err = c.Env.WithRig(ctx, "repair", nil, func(r *testbed.Rig) {
		results, err = lockjudge.Judge(r.Context(), lockjudge.Options{Command: command, Redis: r.OwnRedis().Addr(), Except: one.LeavesOut()})
		if err != nil {
			r.Fatalf("%w", err)
		}
	})
	if err != nil {
		return Outcome{Says: []i18n.Text{i18n.F("It cannot be judged: %s", err.Error())}}, ctx.Err()
	}
	var says []i18n.Text
	for _, r := range results {
		if r.Broke() || r.Behaviour == one.Goal && r.Untried != "" {
			says = append(says, i18n.F("%s breaks: %s. Seen: %s", string(r.Behaviour), r.Behaviour.Description(), r.Broken+r.Untried))
			for _, e := range r.History {
				says = append(says, i18n.Plain(fmt.Sprintf("%8.1f ms  %-10s %s", float64(e.At.Microseconds())/1000, e.Who, e.What)))
			}
		}
	}
	if len(says) > 0 {
		return Outcome{Says: says}, nil
	}
	return Outcome{Done: true, Right: true, Answer: answer, Says: []i18n.Text{
		i18n.F("%s holds, and so does everything else that the lock promised: %d behaviours.", string(one.Goal), len(results)),
	}}, nil
}
