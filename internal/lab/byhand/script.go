package byhand

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// The bounds of a script and of a bench.
const (
	// MaxMoves is how many moves a bench takes.
	MaxMoves = 100
	// idleLimit ends a bench that nobody moves, and Limit one that goes on for too long.
	idleLimit = 10 * time.Minute
	Limit     = 30 * time.Minute
)

// Action is what is done in a move.
type Action string

// The actions of a process.
const (
	Acquire Action = "a"
	Write   Action = "w"
	Release Action = "r"
	Pause   Action = "p" // SIGSTOP
	Resume  Action = "c" // SIGCONT
	Kill    Action = "k" // SIGKILL
	Cut     Action = "n" // its network to the store
	Restore Action = "b" // its network
)

// The actions of the store.
const (
	Delete   Action = "d" // somebody deletes the key
	Expire   Action = "x" // nothing is done until the key is gone by itself
	Lag      Action = "l" // the replica receives nothing any more
	CatchUp  Action = "u" // the replica receives what it lacks
	FailOver Action = "f" // the primary dies, and the replica takes its place
)

// The actions of a node.
const (
	KillNode  Action = "h"
	StartNode Action = "s" // empty
)

// word is an action in a file.
type word struct {
	action Action
	name   string
}

// The actions of each kind, in the order of their buttons.
func ofProcess() []word {
	return []word{
		{Acquire, "acquire"}, {Write, "write"}, {Release, "release"}, {Pause, "pause"}, {Resume, "resume"}, {Kill, "kill"},
		{Cut, "cut-network"}, {Restore, "restore-network"},
	}
}

func ofStore() []word {
	return []word{
		{Delete, "delete-key"}, {Expire, "let-lease-run-out"}, {Lag, "stop-replication"}, {CatchUp, "resume-replication"},
		{FailOver, "fail-over"},
	}
}

func ofNode() []word { return []word{{KillNode, "kill-node"}, {StartNode, "start-node"}} }

// Actions lists all actions.
func Actions() []Action {
	var all []Action
	for _, w := range actions() {
		all = append(all, w.action)
	}
	return all
}

func actions() []word { return slices.Concat(ofProcess(), ofStore(), ofNode()) }

// name is the action in a file.
func (a Action) name() string {
	all := actions()
	return all[slices.IndexFunc(all, func(w word) bool { return w.action == a })].name
}

// is says whether an action is one of these.
func (a Action) is(of []word) bool {
	return slices.ContainsFunc(of, func(w word) bool { return w.action == a })
}

// Move is an action of a process or a node, counted from 1, or of the store: 0.
type Move struct {
	Action Action
	Number int
}

// process is the number of the process that a move is of; 0: it is of none.
func (m Move) process() int {
	if m.Action.is(ofProcess()) {
		return m.Number
	}
	return 0
}

// String is the move in a script, such as "a1" or "x".
func (m Move) String() string {
	if m.Number == 0 {
		return string(m.Action)
	}
	return string(m.Action) + strconv.Itoa(m.Number)
}

// check reports whether a bench with this setup has the move.
func (m Move) check(s Setup) error {
	fits := false
	switch {
	case m.Action.is(ofProcess()):
		fits = m.Number >= 1 && m.Number <= s.Processes
	case m.Action.is(ofNode()):
		fits = m.Number >= 1 && m.Number <= s.nodes()
	case m.Action.is(ofStore()):
		fits = m.Number == 0 && s.Off()[m.Action] == ""
	}
	if !fits {
		return wrong(WrongMove, values{"move": brief(m.String())}, "a bench of %d processes with %s has no move %q", s.Processes, s.Lock, brief(m.String()))
	}
	return nil
}

// parseMove reads a move on a bench with this setup.
func parseMove(text string, s Setup) (Move, error) {
	var m Move
	if text != "" {
		m.Action = Action(text[:1])
	}
	if len(text) > 1 {
		n, err := strconv.Atoi(text[1:])
		if err != nil || strconv.Itoa(n) != text[1:] || n == 0 {
			return Move{}, wrong(WrongMove, values{"move": brief(text)}, "there is no move %q", brief(text))
		}
		m.Number = n
	}
	return m, m.check(s)
}

// Step is a move of a script. It comes so long after the one before has begun or, if that was Done
// when the step was recorded, after that has ended: the same happens on a slower machine, too.
type Step struct {
	Move
	Done  bool
	After time.Duration
}

// String is the step in a script: "r1-250" is a release 250 ms after the end of the step before,
// "r1~250" after its beginning.
func (s Step) String() string {
	sign := "~"
	if s.Done {
		sign = "-"
	}
	return s.Move.String() + sign + strconv.FormatInt(s.After.Milliseconds(), 10)
}

// Script writes steps as one word.
func Script(steps []Step) string {
	words := make([]string, len(steps))
	for i, s := range steps {
		words[i] = s.String()
	}
	return strings.Join(words, ".")
}

// ParseScript reads what [Script] has written, for a bench with this setup. "" has no steps.
func ParseScript(text string, s Setup) ([]Step, error) {
	if text == "" {
		return nil, nil
	}
	words := strings.Split(text, ".")
	if err := checkLength(len(words)); err != nil {
		return nil, err
	}
	steps := make([]Step, len(words))
	for i, word := range words {
		at := strings.IndexAny(word, "-~")
		if at < 0 {
			return nil, wrong(WrongStep, values{"step": brief(word)}, "the step %q has no time", brief(word))
		}
		move, err := parseMove(word[:at], s)
		if err != nil {
			return nil, err
		}
		ms, err := strconv.ParseUint(word[at+1:], 10, 32)
		if err != nil {
			return nil, wrong(WrongStep, values{"step": brief(word)}, "the time of the step %q is no number", brief(word))
		}
		if steps[i], err = newStep(move, word[at] == '-', int64(ms)); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

func checkLength(steps int) error {
	if steps > MaxMoves {
		return wrong(TooManySteps, values{"n": steps, "most": MaxMoves}, "the script has %d moves; %d at most", steps, MaxMoves)
	}
	return nil
}

// newStep is a step so many ms after the one before.
func newStep(m Move, done bool, ms int64) (Step, error) {
	if most := idleLimit.Milliseconds(); ms < 0 || ms > most {
		return Step{}, wrong(WrongTime, values{"most": most}, "a move comes %d ms after the one before; 0 to %d", ms, most)
	}
	return Step{Move: m, Done: done, After: time.Duration(ms) * time.Millisecond}, nil
}
