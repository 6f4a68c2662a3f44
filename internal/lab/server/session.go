package server

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"seckill/internal/lab"
	"seckill/internal/lab/byhand"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/testbed"
)

// keptRuns is how many runs a session remembers: the newest.
const keptRuns = 100

// session is what has been run since the process began.
type session struct {
	ctx     context.Context
	config  Config
	streams *streams
	running sync.WaitGroup
	ended   func(*finding.Result) // is told of each run that has come to its end

	mu      sync.Mutex
	lab     *lab.Lab // nil until the first run
	env     *testbed.Environment
	closed  bool
	last    int  // the number of the newest run
	now     *run // nil: nothing runs
	bench   *run // the newest bench; nil: there was none
	results []*run
}

// run is one run of an experiment, or a bench.
type run struct {
	n          int
	experiment *lab.Experiment // with the values of this run; nil: it is a bench
	bench      *byhand.Bench   // nil: it is an experiment
	predicted  *finding.Prediction
	began      time.Time
	end        context.CancelFunc
	testbed    *testbed.Rig // nil until it has begun

	// The live view of a run.
	doing   i18n.Text
	live    *finding.Witness // nil: nothing has happened yet
	actors  []judge.Actor    // those that have lanes in it
	picture int              // counts the pictures
	// lookedAt is when the picture was drawn.
	lookedAt time.Time
	found    map[finding.Kind]int

	result finding.Result // of one that has ended
	failed string         // why a bench could not go on
}

func newSession(ctx context.Context, c Config, s *streams) *session {
	all := &session{ctx: ctx, config: c, streams: s}
	s.publish(all.state())
	return all
}

// begin begins a run and returns its number.
func (s *session) begin(e *lab.Experiment, p *finding.Prediction) (n int, err error) {
	one := &run{experiment: e, predicted: p}
	return s.start(one, func(ctx context.Context) { s.play(ctx, one) })
}

// start starts what begins now, unless something else goes on.
func (s *session) start(one *run, play func(ctx context.Context)) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed || s.ctx.Err() != nil:
		return 0, errStopping
	case s.now != nil:
		return 0, errBusy
	}
	ctx, cancel := context.WithCancel(s.ctx)
	s.last++
	one.n, one.began, one.end = s.last, time.Now(), cancel
	s.now = one
	if one.bench != nil {
		s.bench = one
	}
	s.running.Go(func() {
		defer cancel()
		play(ctx)
	})
	s.streams.publish(s.state())
	return one.n, nil
}

// play plays a run to its end. A run that was cancelled leaves nothing.
func (s *session) play(ctx context.Context, one *run) {
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { s.follow(following, one) })
	r := s.result(ctx, one.experiment)
	stop()
	follower.Wait()
	if ctx.Err() == nil {
		if one.predicted != nil {
			one.predicted.Judge(&r)
		}
		s.ended(&r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = nil
	if ctx.Err() == nil {
		one.result, one.live, one.testbed = r, nil, nil
		s.results = append(s.results, one)
		if n := len(s.results) - keptRuns; n > 0 {
			s.results = append(s.results[:0], s.results[n:]...)
		}
	}
	s.streams.publish(s.state())
}

func (s *session) result(ctx context.Context, e *lab.Experiment) finding.Result {
	l, err := s.open()
	if err != nil {
		return finding.Result{ID: e.ID, Title: e.Title, Group: e.Group, Lock: e.Lock(), Expect: e.Expect, Changed: e.Changed, Command: e.Command(), Failed: err.Error()}
	}
	return l.Run(ctx, e)
}

// open opens the laboratory for the first run. Its servers stay for the next ones.
func (s *session) open() (*lab.Lab, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lab != nil {
		return s.lab, nil
	}
	o := s.config.Options
	o.Progress, o.Notice = s.note, s.note
	o.Started = func(r *testbed.Rig) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.now != nil {
			s.now.testbed = r
		}
	}
	env, err := s.config.Open(s.ctx, o)
	if err != nil {
		return nil, err
	}
	l, err := lab.New(env, s.config.Experiments)
	if err != nil {
		return nil, errors.Join(err, env.Close())
	}
	s.env, s.lab = env, l
	return l, nil
}

// note shows what is being done.
func (s *session) note(what i18n.Text) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now != nil && s.now.doing.String() != what.String() {
		s.now.doing = what
		s.streams.publish(s.state())
	}
}

// cancel ends the run that goes on. It reports false if there is none.
func (s *session) cancel() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return false
	}
	s.now.end()
	return true
}

// close ends the run that goes on, and stops the servers and processes.
func (s *session) close() error {
	s.mu.Lock()
	s.closed = true
	if s.now != nil {
		s.now.end()
	}
	s.mu.Unlock()
	s.running.Wait()
	if s.env == nil {
		return nil
	}
	return s.env.Close()
}

// find returns a run that has ended.
func (s *session) find(number string) (*run, error) {
	n, err := strconv.Atoi(number)
	if err != nil {
		return nil, errNotFound
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.results {
		if one.n == n {
			return one, nil
		}
	}
	return nil, errNotFound
}

// ran returns the runs that have ended, for a report.
func (s *session) ran() []Ran {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Ran
	for _, one := range s.results {
		all = append(all, Ran{one.experiment, one.result})
	}
	return all
}
