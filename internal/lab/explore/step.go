package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Action is what a step does. Its letter is how a [Schedule] writes it.
type Action byte

// The actions. Those of a process first, then time's, then those of servers.
const (
	Begin   Action = 's' // a buyer comes and asks for the lock
	Request Action = 'q' // a request reaches the server, which carries it out
	Reply   Action = 'r' // a reply, or a published message, reaches the process
	Work    Action = 'w' // the holder writes what it has computed, and releases
	Time    Action = 't' // time goes on until something changes
	Pause   Action = 'z' // the process stops, as with SIGSTOP
	Resume  Action = 'g' // it goes on
	Kill    Action = 'k' // the process dies
	Cut     Action = 'x' // a connection breaks: what is under way on it is lost
	Restart Action = 'e' // a server restarts without its data
	Jump    Action = 'j' // a server's clock jumps forward by the length of a lease
)

// actions are all letters.
const actions = "sqrwtzgkxej"

// Step is one step of a schedule.
type Step struct {
	Action Action
	// On is the number of the process, or of the server with [Restart] and [Jump], from 1; 0 with [Time].
	On int
	// Conn is the connection of a request, a reply or a cut, by its number in the process from 1. 0: the one whose
	// request or reply is the oldest.
	Conn int
}

// String is the step as a schedule writes it: "q1", "r2.3", "t".
func (s Step) String() string {
	text := string(s.Action)
	if s.On > 0 {
		text += strconv.Itoa(s.On)
	}
	if s.Conn > 0 {
		text += "." + strconv.Itoa(s.Conn)
	}
	return text
}

// Schedule is a run, step by step. As text it can be a part of an address: "naive~2~s1-q1-r1-t".
type Schedule struct {
	Lock   string
	Buyers int
	Steps  []Step
}

// String is the schedule as [ParseSchedule] reads it.
func (s Schedule) String() string {
	steps := make([]string, len(s.Steps))
	for i, step := range s.Steps {
		steps[i] = step.String()
	}
	return fmt.Sprintf("%s~%d~%s", s.Lock, s.Buyers, strings.Join(steps, "-"))
}

// ErrSchedule means that a text is no schedule, or that it does not fit the run.
var ErrSchedule = errors.New("explore: no such schedule")

// ParseSchedule reads what [Schedule.String] writes.
func ParseSchedule(text string) (Schedule, error) {
	parts := strings.Split(strings.TrimSpace(text), "~")
	if len(parts) != 3 || parts[0] == "" {
		return Schedule{}, fmt.Errorf("%w: %q is not LOCK~BUYERS~STEPS, such as naive~2~s1-q1-r1", ErrSchedule, text)
	}
	buyers, err := strconv.Atoi(parts[1])
	if err != nil || buyers < 1 || buyers > MaxBuyers {
		return Schedule{}, fmt.Errorf("%w: %q buyers; 1 to %d", ErrSchedule, parts[1], MaxBuyers)
	}
	s := Schedule{Lock: parts[0], Buyers: buyers}
	if parts[2] == "" {
		return s, nil
	}
	for word := range strings.SplitSeq(parts[2], "-") {
		step, ok := parseStep(word)
		if !ok || len(s.Steps) == MaxSteps {
			return Schedule{}, fmt.Errorf("%w: step %d, %q; a letter of %s and a number, at most %d steps", ErrSchedule, len(s.Steps)+1, word, actions, MaxSteps)
		}
		s.Steps = append(s.Steps, step)
	}
	return s, nil
}

func parseStep(word string) (Step, bool) {
	if word == "" || !strings.Contains(actions, word[:1]) {
		return Step{}, false
	}
	step := Step{Action: Action(word[0])}
	if word = word[1:]; word == "" {
		return step, step.Action == Time
	}
	on, conn, dotted := strings.Cut(word, ".")
	var err error
	if step.On, err = strconv.Atoi(on); err != nil || step.On < 1 || step.On > 9 {
		return Step{}, false
	}
	if dotted {
		if step.Conn, err = strconv.Atoi(conn); err != nil || step.Conn < 1 || step.Conn > 99 {
			return Step{}, false
		}
	}
	return step, true
}

// Adversity is a kind of bad luck that a schedule has.
type Adversity int

// The adversities.
const (
	Preemption Adversity = iota // what is next on a connection, or a holder's work, is held back while others go on
	Expiry                      // time goes on past the end of a key
	Pausing                     // a process stops for a while
	Killing                     // a process dies
	Cutting                     // a connection breaks
	Restarting                  // a server restarts without its data
	Jumping                     // a server's clock jumps
	adversities
)

var adversityNames = [adversities]string{"preemptions", "expiries", "pauses", "kills", "cuts", "restarts", "jumps"}

// String is its name in the plural, as flags and JSON have it.
func (a Adversity) String() string { return adversityNames[a] }

// Adversities returns all kinds.
func Adversities() []Adversity {
	all := make([]Adversity, adversities)
	for i := range all {
		all[i] = Adversity(i)
	}
	return all
}

// Budget is how many adversities of each kind there may be, or were.
type Budget [adversities]int

// Total is the number of all adversities.
func (b Budget) Total() int {
	n := 0
	for _, one := range b {
		n += one
	}
	return n
}

func (b Budget) plus(c Budget) Budget {
	for i, n := range c {
		b[i] += n
	}
	return b
}

// within reports whether there are no more adversities of any kind than in limit.
func (b Budget) within(limit Budget) bool {
	for i, n := range b {
		if n > limit[i] {
			return false
		}
	}
	return true
}

// String lists what is not 0: "2 preemptions, 1 expiry".
func (b Budget) String() string {
	var parts []string
	for i, n := range b {
		if n > 0 {
			name := adversityNames[i]
			if n == 1 {
				name = singular(name)
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, name))
		}
	}
	if parts == nil {
		return "no adversity"
	}
	return strings.Join(parts, ", ")
}

func singular(plural string) string {
	if stem, ok := strings.CutSuffix(plural, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(plural, "s")
}

// MarshalJSON writes an object with the numbers by name.
func (b Budget) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(b))
	for i, n := range b {
		parts[i] = fmt.Sprintf("%q:%d", adversityNames[i], n)
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Budget) UnmarshalJSON(text []byte) error {
	var byName map[string]int
	if err := json.Unmarshal(text, &byName); err != nil {
		return err
	}
	for i, name := range adversityNames {
		b[i] = byName[name]
	}
	return nil
}
