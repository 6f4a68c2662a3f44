package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lock"
)

// playsAtOnce is how many schedules are played side by side: a play takes milliseconds of a processor.
const playsAtOnce = 2

// levelJSON is a level as the page shows it: without its shortest schedule, which would tell whether there is one.
type levelJSON struct {
	ID     string         `json:"id"`
	Lock   string         `json:"lock"`
	Buyers int            `json:"buyers"`
	Budget explore.Budget `json:"budget"`
	Aim    finding.Kind   `json:"aim"`
}

// freePlay is the budget of a schedule that belongs to no level.
func freePlay() explore.Budget {
	b := explore.DefaultBudget()
	b[explore.Restarting], b[explore.Jumping] = 1, 1
	return b
}

func shownLevels() []levelJSON {
	var all []levelJSON
	for _, l := range levels() {
		all = append(all, levelJSON{l.ID, l.Lock, l.Buyers, l.Budget, l.Aim})
	}
	return all
}

// playJSON asks for a schedule to be played. The whole schedule is sent each time: the server keeps nothing of it.
type playJSON struct {
	Lock   string         `json:"lock"`
	Buyers int            `json:"buyers"`
	Steps  string         `json:"steps"`  // "s1-q1-r1"; "": nothing has happened yet
	Budget map[string]int `json:"budget"` // what is missing is 0
	Aim    finding.Kind   `json:"aim"`    // "": none
}

// playedJSON is what came of it.
type playedJSON struct {
	Steps []playedStepJSON    `json:"steps"`
	Next  []choiceJSON        `json:"next"` // that the budget allows
	Spent explore.Budget      `json:"spent"`
	Left  explore.Budget      `json:"left"`
	Over  bool                `json:"over"` // time went past the end of a key that the budget does not have
	Found []explore.Violation `json:"found"`
	// Reached says that the aim was reached within the budget.
	Reached bool `json:"reached"`
	// Picture is the address of the picture without its suffix; "": there is nothing to be seen yet.
	Picture string `json:"picture"`
}

type playedStepJSON struct {
	Step explore.Step             `json:"step"`
	Says map[i18n.Language]string `json:"says"`
}

// choiceJSON is a step that is possible. Process is 0 for time and the servers.
type choiceJSON struct {
	Step    explore.Step             `json:"step"`
	Action  string                   `json:"action"` // the letter of an [explore.Action]
	Process int                      `json:"process"`
	Says    map[i18n.Language]string `json:"says"`
	Cost    explore.Budget           `json:"cost"`
}

// play is POST /api/schedule.
func (s *Server) play(w http.ResponseWriter, r *http.Request) error {
	var asked playJSON
	if err := readJSON(w, r, &asked); err != nil {
		return err
	}
	budget, err := budgetOf(asked.Budget)
	if err != nil {
		return err
	}
	schedule, err := explore.ParseSchedule(fmt.Sprintf("%s~%d~%s", asked.Lock, asked.Buyers, asked.Steps))
	if err != nil {
		return because(errInvalid, err)
	}
	p, err := s.plays.play(r.Context(), budget, schedule)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, newPlayed(p, budget, asked.Aim))
}

// budgetOf reads a budget by the names of its adversities.
func budgetOf(given map[string]int) (b explore.Budget, err error) {
	known := 0
	for _, a := range explore.Adversities() {
		n, ok := given[a.String()]
		if n < 0 || n > explore.MaxSteps {
			return b, because(errInvalid, fmt.Errorf("the budget has %d %s; 0 to %d", n, a, explore.MaxSteps))
		}
		if b[a] = n; ok {
			known++
		}
	}
	if known < len(given) {
		return b, because(errInvalid, fmt.Errorf("the budget has other names than %v", explore.Adversities()))
	}
	return b, nil
}

func newPlayed(p explore.Played, budget explore.Budget, aim finding.Kind) playedJSON {
	out := playedJSON{Steps: []playedStepJSON{}, Next: []choiceJSON{}, Spent: p.Spent, Found: orEmpty(p.Found)}
	for _, one := range p.Steps {
		out.Steps = append(out.Steps, playedStepJSON{one.Step, one.Says.All()})
	}
	for _, c := range p.Next {
		one := choiceJSON{Step: c.Step, Action: string(c.Step.Action), Says: c.Says.All(), Cost: c.Cost}
		if c.Step.Action != explore.Restart && c.Step.Action != explore.Jump {
			one.Process = c.Step.On
		}
		out.Next = append(out.Next, one)
	}
	for i := range budget {
		out.Left[i] = max(0, budget[i]-p.Spent[i])
		out.Over = out.Over || p.Spent[i] > budget[i]
	}
	out.Reached = !out.Over && slices.ContainsFunc(p.Found, func(f explore.Violation) bool { return f.Kind == aim })
	if p.Picture != nil {
		out.Picture = "/api/schedules/" + p.Schedule.String()
	}
	return out
}

// schedulePicture is GET /api/schedules/{schedule}.svg, and /api/schedules/{schedule}.steps.
func (s *Server) schedulePicture(w http.ResponseWriter, r *http.Request) error {
	name, ok := nameOf(r.PathValue("picture"))
	if !ok {
		return errNotFound
	}
	schedule, err := explore.ParseSchedule(name)
	if err != nil {
		return because(errInvalid, err)
	}
	p, err := s.plays.play(r.Context(), explore.Budget{}, schedule)
	if err != nil {
		return err
	}
	if p.Picture == nil {
		return errNotFound
	}
	return writePicture(w, r, *p.Picture, "schedule")
}

// answer is POST /api/schedule/answer: whether a level can be won, for a visitor that has won it or says that it cannot
// be.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Level string `json:"level"`
	}
	if err := readJSON(w, r, &asked); err != nil {
		return err
	}
	all := levels()
	i := slices.IndexFunc(all, func(l level) bool { return l.ID == asked.Level })
	if i < 0 {
		return because(errInvalid, fmt.Errorf("there is no level %q", asked.Level))
	}
	return writeJSON(w, http.StatusOK, answerJSON{all[i].Shortest == "", all[i].par(), all[i].Shortest, all[i].Sampled})
}

// answerJSON says whether a level cannot be won, and the shortest way where it can.
type answerJSON struct {
	Unbreakable bool   `json:"unbreakable"`
	Par         int    `json:"par"`
	Shortest    string `json:"shortest"`
	Sampled     bool   `json:"sampled"` // it is only the shortest that is known
}

// plays plays a few schedules at once.
type plays chan struct{}

func (p plays) play(ctx context.Context, budget explore.Budget, s explore.Schedule) (explore.Played, error) {
	select {
	case p <- struct{}{}:
		defer func() { <-p }()
	case <-ctx.Done():
		return explore.Played{}, ctx.Err()
	}
	played, err := explore.Play(ctx, explore.Config{Budget: budget}, s)
	if errors.Is(err, explore.ErrSchedule) || errors.Is(err, explore.ErrUnsupported) || errors.Is(err, lock.ErrUnknown) {
		err = because(errInvalid, err)
	}
	return played, err
}
