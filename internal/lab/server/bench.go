package server

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"seckill/internal/lab/byhand"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/testbed"
)

// benchName is the place of the bench among the names of experiments.
const benchName = "bench"

// benchJSON is the newest bench: the one that goes on, or how the last one ended.
type benchJSON struct {
	N       int                  `json:"n"`
	Picture int                  `json:"picture"` // another number: another picture
	Found   map[finding.Kind]int `json:"found"`
	Failed  string               `json:"failed"`
	byhand.State
}

// benchOptionsJSON is what a bench can be.
type benchOptionsJSON struct {
	Locks []benchLockJSON `json:"locks"`
	// NoReplica is why a Redis server cannot have a replica here; null: it can.
	NoReplica map[i18n.Language]string `json:"no_replica"`
}

// benchLockJSON is a mechanism.
type benchLockJSON struct {
	Lock string `json:"lock"`
	byhand.Kind
	Missing map[i18n.Language]string `json:"missing"` // why it cannot be played here; null: it can
}

func benchOptions(o testbed.Options) benchOptionsJSON {
	all := benchOptionsJSON{NoReplica: inAll(o.Lacks(byhand.Setup{Replica: true}.Needs()))}
	for _, m := range byhand.Mechanisms() {
		all.Locks = append(all.Locks, benchLockJSON{m.Name, byhand.Kind{Store: m.Store, Ends: m.Ends}, inAll(o.Lacks(byhand.Setup{Lock: m.Name}.Needs()))})
	}
	return all
}

// benchState is null before the first bench. The mutex is held, or nobody else has the session yet.
func (s *session) benchState() *benchJSON {
	one := s.bench
	if one == nil {
		return nil
	}
	state := one.bench.State()
	switch {
	case one == s.now: // what it has started may still be there
		state.Ending = byhand.NotEnded
	case state.Ending == byhand.NotEnded: // it has never been ready
		state.Ending = byhand.Ended
	}
	return &benchJSON{N: one.n, Picture: one.picture, Found: one.found, Failed: one.failed, State: state}
}

// beginBench begins a bench that replays a script first.
func (s *session) beginBench(setup byhand.Setup, script string) (n int, err error) {
	b, err := byhand.New(setup, script, s.publish)
	if err != nil {
		return 0, err
	}
	if what := s.config.Options.Lacks(setup.Needs()); !what.IsZero() {
		return 0, because(errMissing, told{what})
	}
	one := &run{bench: b}
	return s.start(one, func(ctx context.Context) { s.playBench(ctx, one) })
}

// publish tells the pages the state.
func (s *session) publish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams.publish(s.state())
}

// playBench is the life of a bench. Its last picture stays until the next bench.
func (s *session) playBench(ctx context.Context, one *run) {
	following, stop := context.WithCancel(ctx)
	var follower sync.WaitGroup
	follower.Go(func() { s.follow(following, one) })
	last := func() { // while what the processes have recorded is there
		stop()
		follower.Wait()
		s.look(one)
	}
	_, err := s.open()
	if err == nil {
		var skipped i18n.Text
		skipped, err = s.env.WithRigFor(ctx, byhand.Limit+time.Minute, benchName, one.bench.Setup().Needs(), func(r *testbed.Rig) {
			defer last()
			one.bench.Play(r)
		})
		if !skipped.IsZero() {
			err = told{skipped}
		}
	}
	stop()
	follower.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, one.testbed = nil, nil
	if err != nil && ctx.Err() == nil {
		one.failed = err.Error()
	}
	s.streams.publish(s.state())
}

// still reports whether nothing has happened on a bench since the last picture. The mutex is held.
func (one *run) still() bool { return one.bench != nil && one.lookedAt.After(one.bench.Quiet()) }

// newBench is POST /api/bench.
func (s *Server) newBench(w http.ResponseWriter, r *http.Request) error {
	var asked newBenchJSON
	if err := readJSON(w, r, &asked); err != nil {
		return err
	}
	n, err := s.session.beginBench(asked.Setup, asked.Script)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, map[string]int{"run": n})
}

// act is POST /api/bench/act.
func (s *Server) act(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Do string `json:"do"`
	}
	if err := readJSON(w, r, &asked); err != nil {
		return err
	}
	s.session.mu.Lock()
	one := s.session.now
	s.session.mu.Unlock()
	if one == nil || one.bench == nil {
		return errIdle
	}
	if err := one.bench.Act(asked.Do); err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, struct{}{})
}

// benchPicture is GET /api/bench.svg. A page may ask when a new bench has just begun: that is no error.
func (s *Server) benchPicture(w http.ResponseWriter, r *http.Request) error {
	return s.writeLive(w, r, func() *run { return s.session.bench })
}

// benchFile is GET /api/bench.json: what was done on the newest bench, to be kept.
func (s *Server) benchFile(w http.ResponseWriter, _ *http.Request) error {
	s.session.mu.Lock()
	one := s.session.bench
	s.session.mu.Unlock()
	if one == nil {
		return errNotFound
	}
	data, err := one.bench.File()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="by-hand-%s.json"`, one.bench.Setup().Lock))
	_, _ = w.Write(data) // the client may be gone
	return nil
}

// readBench is POST /api/bench/file: it answers with what POST /api/bench takes. Nothing is begun.
func (s *Server) readBench(w http.ResponseWriter, r *http.Request) error {
	if err := checkJSON(r); err != nil {
		return err
	}
	setup, script, err := byhand.ReadFile(r.Body)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, newBenchJSON{setup, script})
}

// newBenchJSON asks for a bench.
type newBenchJSON struct {
	byhand.Setup
	Script string `json:"script"`
}
