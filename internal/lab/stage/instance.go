package stage

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/testkit"
	"seckill/internal/trace"
)

// Untraced is an extra setting of an API process that keeps it from recording what it
// does: for experiments that count commands.
const Untraced = "SECKILL_LAB_TRACE="

// Instance is an API process.
type Instance struct {
	Name, URL string

	kind    string // processes of the same kind stand in for each other
	process *testkit.Process
	journal *journal
	watch   sync.WaitGroup

	mu     sync.Mutex
	died   int64 // when; 0: it lives
	pauses []judge.Pause
}

// API returns n API processes, "api-1" and so on; 0 is as many as the options say. They
// are fresh, or were left healthy by an earlier experiment. env are further settings,
// as NAME=value, which go before those of the stage.
//
// Embedded there is one process. An experiment that asks for more is skipped.
func (s *Stage) API(n int, env ...string) []*Instance {
	if n == 0 {
		n = s.house.options.Instances
		if !s.Real() {
			n = 1
		}
	}
	if n > 1 && !s.Real() {
		s.Skipf("needs %d API processes, which meet at a redis-server and a mariadbd", n)
	}
	binary := s.apiBinary()
	env = append(s.settings(), env...)
	instances := make([]*Instance, n)
	for i := range instances {
		instances[i] = s.checkOut(binary, fmt.Sprintf("api-%d", i+1), env)
	}
	for _, i := range instances {
		if i.URL == "" {
			i.URL = i.process.WaitLine(s, `serving on (http://[^\s,]+)`)[1]
		}
		s.must(i.journal.forget())
	}
	return instances
}

// settings tell an API process where its servers are. Those of whoever runs the
// laboratory must not reach it: they may lead to servers that are not ours.
func (s *Stage) settings() []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST_") {
			env = append(env, name+"=")
		}
	}
	env = append(env, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1", "SECKILL_LOG_LEVEL=warn",
		"TMPDIR="+s.house.folder, // what a process that is killed leaves goes with the house
	)
	if !s.Real() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.engine.Redis, s.engine.Database = "embedded (miniredis)", "embedded (SQLite)"
		return env
	}
	env = append(env,
		"SECKILL_JWT_SECRET="+s.house.secret,
		"SECKILL_MYSQL_DSN="+s.MariaDB().DSN,
		"SECKILL_REDIS_ADDRS="+s.Redis().Addr(),
	)
	if s.needed(Nodes) {
		env = append(env, "SECKILL_LOCK_REDIS_ADDRS="+strings.Join(s.Nodes(sharedNodes), ","))
	}
	if s.needed(ZooKeeper) {
		env = append(env, "SECKILL_ZOOKEEPER_ADDRS="+s.ZooKeeper().Addr())
	}
	return env
}

// pool keeps the API processes that nobody uses.
type pool struct {
	mu   sync.Mutex
	idle []*Instance // the longest unused first
}

// maxIdle bounds how many are kept: each has connections to the database, of which
// there are only so many.
const maxIdle = 4

// checkOut takes an idle process of the kind, or starts one.
func (s *Stage) checkOut(binary, name string, env []string) *Instance {
	kind := strings.Join(append([]string{name}, env...), "\x00")
	pool := &s.house.pool
	pool.mu.Lock()
	var i *Instance
	for at, idle := range slices.Backward(pool.idle) { // the last one used is the warmest
		if idle.kind == kind && idle.Alive() {
			i = idle
			pool.idle = slices.Delete(pool.idle, at, at+1)
			break
		}
	}
	pool.mu.Unlock()
	if i == nil {
		i = s.house.start(binary, name, kind, env)
	}
	s.Cleanup(func() { s.house.giveBack(i) })
	return i
}

// start executes the service. It does not wait until that serves.
func (h *House) start(binary, name, kind string, env []string) *Instance {
	h.options.Progress("starting " + name)
	file := filepath.Join(h.root.TempDir(), name+".trace")
	i := &Instance{Name: name, kind: kind, journal: &journal{path: file}}
	own := []string{"SECKILL_LAB_TRACE=" + file, "SECKILL_LAB_NAME=" + name}
	i.process = testkit.Start(h.root, testkit.Command{Path: binary, Env: append(own, env...)})
	i.watch.Go(func() {
		<-i.process.Done()
		i.isDead()
	})
	h.root.Cleanup(func() {
		i.process.Kill()
		i.watch.Wait()
	})
	return i
}

// giveBack keeps a process that is as good as new, and kills one that is not.
func (h *House) giveBack(i *Instance) {
	i.mu.Lock()
	good := i.died == 0 && len(i.pauses) == 0 && i.URL != ""
	i.mu.Unlock()
	if !good {
		i.process.Kill()
		return
	}
	h.pool.mu.Lock()
	h.pool.idle = append(h.pool.idle, i)
	var surplus []*Instance
	if n := len(h.pool.idle) - maxIdle; n > 0 {
		surplus = slices.Clone(h.pool.idle[:n])
		h.pool.idle = slices.Delete(h.pool.idle, 0, n)
	}
	h.pool.mu.Unlock()
	for _, old := range surplus {
		old.process.Kill()
	}
}

// Target is where load finds it.
func (i *Instance) Target() load.Target { return load.Target{Name: i.Name, URL: i.URL} }

// Kill kills the process (SIGKILL) and waits until it is gone.
func (i *Instance) Kill() {
	i.isDead() // before, so that nothing counts as done by the dead that was done after
	i.process.Kill()
}

func (i *Instance) isDead() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.died == 0 {
		i.died = now()
	}
}

// Alive says whether it has not ended.
func (i *Instance) Alive() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.died == 0
}

// Pause stops the process where it stands (SIGSTOP).
func (i *Instance) Pause() {
	i.process.Pause()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pauses = append(i.pauses, judge.Pause{Process: i.Name, From: now()})
}

// Resume lets a paused process go on (SIGCONT).
func (i *Instance) Resume() {
	i.mu.Lock()
	if n := len(i.pauses); n > 0 && i.pauses[n-1].To == 0 {
		i.pauses[n-1].To = now()
	}
	i.mu.Unlock()
	i.process.Resume()
}

// running says whether it can be asked something.
func (i *Instance) running() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	n := len(i.pauses)
	return i.died == 0 && (n == 0 || i.pauses[n-1].To != 0)
}

// Events are those that it has recorded since this experiment got it.
func (i *Instance) Events() ([]trace.Event, error) { return i.journal.read() }

// fate is what was done to it, or it did to itself.
func (i *Instance) fate() (deaths []judge.Death, pauses []judge.Pause) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.died != 0 {
		deaths = []judge.Death{{Process: i.Name, At: i.died}}
	}
	return deaths, slices.Clone(i.pauses)
}
