package byhand

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"seckill/internal/lab/lockclient"
)

// Bench is one bench. [Bench.Play] is its life; the other methods may be called at any time, from
// any goroutine.
type Bench struct {
	setup   Setup
	script  []Step // what is replayed first
	changed func()
	todo    chan *turn

	mu        sync.Mutex
	ready     bool
	replaying bool
	stopped   bool // the replay could not go on
	ending    Ending
	touched   time.Time
	processes []*process
	turns     []*turn
	expiring  *turn // the wait for the end of the lease

	changing   *turn  // what is being done to the replication or to a node
	lagging    bool   // the replica receives nothing
	failedOver bool   // the replica has taken the primary's place
	down       []bool // by node
}

// Ending is why a bench is over.
type Ending string

// The endings.
const (
	NotEnded Ending = ""
	Ended    Ending = "ended" // by hand
	Idle     Ending = "idle"
	TooLong  Ending = "limit"
)

// process is a child process. Its client is set before the bench is ready.
type process struct {
	name   string // in the event log
	who    string // in the picture
	client *lockclient.Client

	doing    *turn // what it has been asked to do
	signal   *turn // what is being done to it
	lease    lockclient.Lease
	stopLook func() // ends the wait for the loss of the lease
	lost     bool   // it was told that the lease is lost
	unsure   bool   // its release had no answer
	paused   bool
	dead     bool
	restore  func() // its network; nil: it has it
}

// turn is a move that was made.
type turn struct {
	Step
	began, ended time.Time
	told         string        // what came of it; "" until it has ended
	done         chan struct{} // closed when it has ended
}

// New returns a bench that replays a script and then does what [Bench.Act] says. changed is called
// whenever its state is another one.
func New(s Setup, script string, changed func()) (*Bench, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	steps, err := ParseScript(script, s)
	if err != nil {
		return nil, err
	}
	b := &Bench{
		setup: s, script: steps, changed: changed, todo: make(chan *turn, MaxMoves), touched: time.Now(), replaying: len(steps) > 0,
		down: make([]bool, s.nodes()),
	}
	for i := range s.Processes {
		b.processes = append(b.processes, &process{name: fmt.Sprintf("process-%d", i+1), who: fmt.Sprintf("P%d", i+1), stopLook: func() {}})
	}
	return b, nil
}

// Setup is what is on the bench.
func (b *Bench) Setup() Setup { return b.setup }

// Act makes a move, such as "a1". It does not wait for its end.
func (b *Bench) Act(move string) error {
	m, err := parseMove(move, b.setup)
	if err != nil {
		return err
	}
	b.mu.Lock()
	if b.replaying {
		b.mu.Unlock()
		return fmt.Errorf("%w: a script is being replayed", ErrNotNow)
	}
	_, err = b.begin(m)
	b.mu.Unlock()
	if err == nil {
		b.changed()
	}
	return err
}

// begin begins a turn. The mutex is held.
func (b *Bench) begin(m Move) (*turn, error) {
	if !slices.Contains(b.possible(m), m.Action) {
		return nil, fmt.Errorf("%w: %s", ErrNotNow, m)
	}
	t := &turn{Step: Step{Move: m}, began: time.Now(), done: make(chan struct{})}
	if n := len(b.turns); n > 0 {
		last := b.turns[n-1]
		since := last.began
		if last.told != "" {
			since, t.Done = last.ended, true
		}
		t.After = t.began.Sub(since)
	}
	switch m.Action {
	case Acquire, Write, Release:
		b.processes[m.Number-1].doing = t
	case Pause, Resume, Kill, Cut, Restore:
		b.processes[m.Number-1].signal = t
	case Expire:
		b.expiring = t
	case Lag, CatchUp, FailOver, KillNode, StartNode:
		b.changing = t
	case Delete:
	}
	b.turns, b.touched = append(b.turns, t), t.began
	b.todo <- t // it has room for all moves
	return t, nil
}

// possible lists what the process, the node or the store of a move can do or suffer now. The mutex is
// held.
func (b *Bench) possible(m Move) []Action {
	switch {
	case !b.ready || b.ending != NotEnded || len(b.turns) >= MaxMoves:
		return nil
	case m.Action.is(ofProcess()):
		return b.processes[m.Number-1].possible()
	case m.Action.is(ofNode()):
		if b.changing != nil {
			return nil
		}
		if b.down[m.Number-1] {
			return []Action{StartNode}
		}
		return []Action{KillNode}
	}
	return b.possibleOfStore()
}

func (b *Bench) possibleOfStore() []Action {
	all := []Action{Delete}
	if b.expiring == nil {
		all = append(all, Expire)
	}
	if b.changing == nil && !b.failedOver {
		if b.lagging {
			all = append(all, CatchUp, FailOver)
		} else {
			all = append(all, Lag, FailOver)
		}
	}
	off := b.setup.Off()
	return slices.DeleteFunc(all, func(a Action) bool { return off[a] != "" })
}

func (p *process) possible() []Action {
	if p.dead || p.signal != nil {
		return nil
	}
	network := Cut
	if p.restore != nil {
		network = Restore
	}
	switch {
	case p.paused:
		return []Action{Resume, Kill, network}
	case p.doing != nil:
		return []Action{Pause, Kill, network}
	case p.lease != "":
		return []Action{Write, Release, Pause, Kill, network}
	}
	return []Action{Acquire, Pause, Kill, network}
}

// finish ends a turn. told says what came of it.
func (b *Bench) finish(t *turn, told string) {
	b.mu.Lock()
	t.ended, t.told = time.Now(), told
	b.touched = t.ended
	if b.expiring == t {
		b.expiring = nil
	}
	if b.changing == t {
		b.changing = nil
	}
	if n := t.process(); n > 0 {
		p := b.processes[n-1]
		if p.doing == t {
			p.doing = nil
		}
		if p.signal == t {
			p.signal = nil
		}
	}
	b.mu.Unlock()
	close(t.done)
	b.changed()
}

// Quiet is when nothing more happens by itself: the lease of the last move is over by then.
func (b *Bench) Quiet() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expiring != nil || slices.ContainsFunc(b.processes, func(p *process) bool { return p.doing != nil && !p.dead }) {
		return time.Now().Add(time.Hour)
	}
	return b.touched.Add(time.Duration(b.setup.Lease)*time.Second + 2*time.Second)
}

// State is what a bench shows.
type State struct {
	Setup     Setup          `json:"setup"`
	Kind      Kind           `json:"kind"`
	Ready     bool           `json:"ready"`
	Replaying bool           `json:"replaying"`
	Stopped   bool           `json:"stopped"` // the replay could not go on
	Ending    Ending         `json:"ending"`
	Processes []ProcessState `json:"processes"`
	Nodes     []NodeState    `json:"nodes"`
	Store     []Action       `json:"store"` // what can be done to it
	Off       map[Action]Why `json:"off"`   // what can never be done to it
	Expiring  bool           `json:"expiring"`
	Lagging   bool           `json:"lagging"`
	// FailedOver says that the replica has taken the primary's place.
	FailedOver bool   `json:"failed_over"`
	Turns      []Turn `json:"turns"`
	Script     string `json:"script"`
}

// ProcessState is what a process is doing.
type ProcessState struct {
	// Is is one of free, acquire, write, release, holds, unsure, lost, paused, dead.
	Is    string   `json:"is"`
	Holds bool     `json:"holds"` // it believes so
	Cut   bool     `json:"cut"`   // it has no network
	Can   []Action `json:"can"`
}

// NodeState is a node.
type NodeState struct {
	Up  bool     `json:"up"`
	Can []Action `json:"can"`
}

// Turn is a move that was made, by a process or to a node, counted from 1, or to the store.
type Turn struct {
	Do      Action `json:"do"`
	Process int    `json:"process"`
	Node    int    `json:"node"`
	AtMS    int64  `json:"at_ms"` // since the first one
	Told    string `json:"told"`  // "": it has not ended
}

// State returns the state now.
func (b *Bench) State() State {
	b.mu.Lock()
	defer b.mu.Unlock()
	can := func(m Move) []Action {
		if b.replaying {
			return []Action{}
		}
		return append([]Action{}, b.possible(m)...)
	}
	s := State{
		Setup: b.setup, Kind: Kind{b.setup.mechanism().Store, b.setup.mechanism().Ends}, Ready: b.ready, Replaying: b.replaying, Stopped: b.stopped, Ending: b.ending,
		Expiring: b.expiring != nil, Lagging: b.lagging, FailedOver: b.failedOver, Store: can(Move{Action: Delete}), Off: b.setup.Off(),
		Turns: []Turn{}, Processes: []ProcessState{}, Nodes: []NodeState{}, Script: Script(b.steps()),
	}
	for i, p := range b.processes {
		s.Processes = append(s.Processes, ProcessState{
			Is: p.is(), Holds: p.lease != "" && !p.lost && !p.unsure && !p.dead, Cut: p.restore != nil, Can: can(Move{Acquire, i + 1}),
		})
	}
	for i, down := range b.down {
		s.Nodes = append(s.Nodes, NodeState{Up: !down, Can: can(Move{KillNode, i + 1})})
	}
	for _, t := range b.turns {
		told := Turn{Do: t.Action, Process: t.process(), AtMS: t.began.Sub(b.turns[0].began).Milliseconds(), Told: t.told}
		if t.Action.is(ofNode()) {
			told.Node = t.Number
		}
		s.Turns = append(s.Turns, told)
	}
	return s
}

// steps are the moves that were made. The mutex is held.
func (b *Bench) steps() []Step {
	var steps []Step
	for _, t := range b.turns {
		steps = append(steps, t.Step)
	}
	return steps
}

// is names what a process is doing. The mutex is held.
func (p *process) is() string {
	switch {
	case p.dead:
		return "dead"
	case p.paused:
		return "paused"
	case p.doing != nil:
		return map[Action]string{Acquire: "acquire", Write: "write", Release: "release"}[p.doing.Action]
	case p.unsure:
		return "unsure"
	case p.lost:
		return "lost"
	case p.lease != "":
		return "holds"
	}
	return "free"
}
