package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"seckill/internal/lab/finding"
	"seckill/internal/lock"
	"seckill/internal/lock/lockers"
)

// Limits of a run.
const (
	MaxBuyers = 4
	MaxSteps  = 200
)

// Config says what is explored.
type Config struct {
	// Lock is a mechanism of the catalogue that keeps its locks in Redis; with Open, the name of a lock of one's own.
	Lock string
	// Buyers is the number of processes, each with one buyer. 0: 2.
	Buyers int
	// Budget is how many adversities a schedule may have of each kind, and Most how many in all. 0: their total.
	Budget Budget
	Most   int
	// For bounds the time that the search takes. 0: until everything within the budget was tried.
	For time.Duration
	// Sample is how many schedules are sampled where the search did not come to its end; 0: none. What they are depends on Seed.
	Sample int
	Seed   uint64
	// Until ends the search with the shortest schedule of this anomaly. "": with the budget.
	Until finding.Kind
	// Mechanism describes the lock of Open. For one of the catalogue it comes from there.
	Mechanism lock.Mechanism
	// Open opens the lock of one process, on clients of the servers. nil: the one of the catalogue.
	Open func(clients []*redis.Client) (lock.Locker, func(), error)
	// rewrite changes the source of each script on its way to a server; nil: it stays. Tests put in faults.
	rewrite func(source string) string
	// Progress is called after each level, and at most once a second.
	Progress func(Progress)
}

// Progress is how far a search has come.
type Progress struct {
	Level      int // adversities of the schedules that are tried
	Executions int
	States     int
	Waiting    int // beginnings of schedules that are still to be tried
	Sampled    int // executions, once the search is over
}

// DefaultBudget is enough for every failure that the documents describe on one server.
func DefaultBudget() Budget {
	return Budget{Preemption: 2, Expiry: 2, Pausing: 1, Killing: 1, Cutting: 1}
}

// ErrUnsupported means that a lock cannot be explored.
var ErrUnsupported = errors.New("explore: this lock cannot be explored")

func (c Config) withDefaults() (Config, error) {
	if c.Buyers == 0 {
		c.Buyers = 2
	}
	if c.Buyers < 1 || c.Buyers > MaxBuyers {
		return c, fmt.Errorf("explore: %d buyers; 1 to %d", c.Buyers, MaxBuyers)
	}
	if c.Most == 0 {
		c.Most = c.Budget.Total()
	}
	if c.Open != nil {
		return c, nil
	}
	m, err := lock.Lookup(c.Lock)
	if err != nil {
		return c, err
	}
	if m.Store != lock.InRedis && m.Store != lock.InNodes {
		return c, fmt.Errorf("%w: %s keeps its locks in %s; only those in Redis run in a bubble of time", ErrUnsupported, c.Lock, m.Store)
	}
	c.Mechanism = m
	c.Open = func(clients []*redis.Client) (lock.Locker, func(), error) { return openMechanism(m, clients) }
	return c, nil
}

// nodes is the number of servers that a lock needs.
func (c Config) nodes(m lock.Mechanism) int {
	if m.Store == lock.InNodes {
		return 3
	}
	return 1
}

func openMechanism(m lock.Mechanism, clients []*redis.Client) (lock.Locker, func(), error) {
	var servers lockers.Servers
	if m.Store == lock.InNodes {
		for _, c := range clients {
			servers.Nodes = append(servers.Nodes, c)
		}
	} else {
		servers.Redis = clients[0]
	}
	half := func(n time.Duration) time.Duration { return n / 2 }
	set, err := lockers.Open(servers, lockers.Config{
		Only: m.Name, Watchdog: lease, Poll: lock.Polling{Every: pollEvery, Jitter: half},
	})
	if err != nil {
		return nil, nil, err
	}
	l, err := set.Locker(m.Name)
	if err != nil {
		return nil, nil, errors.Join(err, set.Close())
	}
	return l, func() {
		_ = set.Close()
		for _, c := range clients {
			_ = c.Close()
		}
	}, nil
}

// Counterexample is the shortest schedule that shows an anomaly: of those with the fewest adversities. One that was sampled
// was shrunk, and there may be a shorter one.
type Counterexample struct {
	Kind     finding.Kind `json:"kind"`
	Schedule Schedule     `json:"schedule"`
	Spent    Budget       `json:"spent"`
	Sampled  bool         `json:"sampled,omitempty"`
}

// Result is what a search has found, and what it covers.
type Result struct {
	Lock   string `json:"lock"`
	Buyers int    `json:"buyers"`
	Budget Budget `json:"budget"`
	// Complete is up to how many adversities all schedules within the budget were tried; -1: not even those without any.
	Complete int `json:"complete"`
	// Exhausted says that all schedules within the budget were tried.
	Exhausted  bool `json:"exhausted"`
	Executions int  `json:"executions"`
	States     int  `json:"states"`
	// Diverged counts the executions in which a step was not possible that had been: the lock did not behave as before.
	Diverged int              `json:"diverged"`
	Took     time.Duration    `json:"took_ns"` // without what was sampled
	Sampled  *Sampled         `json:"sampled,omitempty"`
	Found    []Counterexample `json:"found"`
}

// PerSecond is the number of executions per second.
func (r Result) PerSecond() float64 {
	if r.Took <= 0 {
		return 0
	}
	return float64(r.Executions) / r.Took.Seconds()
}

// Run explores. It returns what it has found so far when ctx ends, with its error.
func Run(ctx context.Context, c Config) (Result, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Result{}, err
	}
	s := search{config: c, seen: map[string][]visit{}, best: map[finding.Kind]*candidate{}}
	err = s.run(ctx)
	if err == nil && s.complete < c.Most && c.Sample > 0 && s.best[c.Until] == nil {
		err = s.sample(ctx)
	}
	return s.result(), err
}

func (s *search) result() Result {
	r := Result{
		Lock: s.config.Lock, Buyers: s.config.Buyers, Budget: s.config.Budget, Complete: s.complete, Exhausted: s.exhausted,
		Executions: s.executions, States: len(s.seen), Diverged: s.diverged, Took: s.took,
		Sampled: s.sampled,
	}
	for kind, c := range s.best {
		r.Found = append(r.Found, Counterexample{kind, Schedule{s.config.Lock, s.config.Buyers, c.steps}, c.spent, c.sampled})
	}
	slices.SortFunc(r.Found, func(x, y Counterexample) int {
		return cmp.Or(cmp.Compare(x.Spent.Total(), y.Spent.Total()), cmp.Compare(len(x.Schedule.Steps), len(y.Schedule.Steps)), cmp.Compare(x.Kind, y.Kind))
	})
	return r
}
