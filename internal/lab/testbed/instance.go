package testbed

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"seckill/internal/eventlog"
	"seckill/internal/lab/childredis"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/testkit"
)

// Untraced is an extra setting of an API process that keeps it from recording events: for
// experiments that count commands.
const Untraced = "SECKILL_LAB_TRACE="

// Instance is an API process.
type Instance struct {
	Name, URL string

	kind     string // name and settings; equal processes are interchangeable
	process  *testkit.Process
	recorded *eventFile
	watching sync.WaitGroup

	mu   sync.Mutex
	died int64 // 0: it is alive
}

// API returns n API processes, "api-1" and so on; 0 is as many as the options say. They are
// new, or an earlier experiment left them healthy. settings are further settings, as
// NAME=value, which take precedence over those of the run.
//
// The embedded environment has one process: an experiment that asks for more is skipped.
func (r *Run) API(n int, settings ...string) []*Instance {
	if n == 0 {
		n = r.env.options.Instances
		if !r.RealServers() {
			n = 1
		}
	}
	if n > 1 && !r.RealServers() {
		r.Skipf("%w", &unfit{i18n.F("needs %d API processes, which meet at a redis-server and a mariadbd", n)})
	}
	binary := r.apiBinary()
	env := append(r.settings(), settings...)
	instances := make([]*Instance, n)
	for i := range instances {
		instances[i] = r.takeInstance(binary, fmt.Sprintf("api-%d", i+1), env)
	}
	for _, i := range instances {
		if i.URL == "" {
			i.URL = i.process.WaitLine(r, `serving on (http://[^\s,]+)`)[1]
		}
		r.must(i.recorded.skipExisting())
		r.Follow(i.addTo)
	}
	return instances
}

// settings tell an API process where its servers are. The settings of the laboratory's own
// process must not reach it: they may lead to servers that are not ours.
func (r *Run) settings() []string {
	var env []string
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "SECKILL_") && !strings.HasPrefix(name, "SECKILL_TEST_") {
			env = append(env, name+"=")
		}
	}
	env = append(env, "SECKILL_ADDR=127.0.0.1:0", "SECKILL_LAB=1", "SECKILL_LOG_LEVEL=warn",
		"TMPDIR="+r.env.folder, // files of a killed process are removed with the environment
	)
	if !r.RealServers() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.engine.Redis, r.engine.Database = childredis.Engine, "embedded (SQLite)"
		return env
	}
	env = append(env,
		"SECKILL_SHUTDOWN_DELAY=0s", // there is no load balancer
		"SECKILL_JWT_SECRET="+r.env.secret,
		"SECKILL_MYSQL_DSN="+r.MariaDB().DSN,
		"SECKILL_REDIS_ADDRS="+r.Redis().Addr(),
	)
	if r.requires(Nodes) {
		env = append(env, "SECKILL_LOCK_REDIS_ADDRS="+strings.Join(r.Nodes(sharedNodes), ","))
	}
	if r.requires(ZooKeeper) {
		env = append(env, "SECKILL_ZOOKEEPER_ADDRS="+r.ZooKeeper().Addr())
	}
	return env
}

// instancePool keeps the idle API processes.
type instancePool struct {
	mu   sync.Mutex
	idle []*Instance // least recently used first
}

// maxIdle bounds how many are kept: each has database connections, and their number is
// limited.
const maxIdle = 4

// takeInstance takes an idle process with the same settings, or starts one.
func (r *Run) takeInstance(binary, name string, env []string) *Instance {
	kind := strings.Join(append([]string{name}, env...), "\x00")
	pool := &r.env.idle
	pool.mu.Lock()
	var i *Instance
	for at, idle := range slices.Backward(pool.idle) { // the most recently used one is warm
		if idle.kind == kind && idle.Alive() {
			i = idle
			pool.idle = slices.Delete(pool.idle, at, at+1)
			break
		}
	}
	pool.mu.Unlock()
	if i == nil {
		i = r.env.start(binary, name, kind, env)
	}
	r.Cleanup(func() { r.env.returnInstance(i) })
	return i
}

// start starts the service. It does not wait until the service is ready.
func (e *Environment) start(binary, name, kind string, env []string) *Instance {
	e.options.Progress(i18n.F("starting %s", name))
	file := filepath.Join(e.root.TempDir(), name+".events")
	i := &Instance{Name: name, kind: kind, recorded: &eventFile{path: file}}
	own := []string{"SECKILL_LAB_TRACE=" + file, "SECKILL_LAB_NAME=" + name}
	i.process = testkit.Start(e.root, testkit.Command{Path: binary, Env: append(own, env...)})
	i.watching.Go(func() {
		<-i.process.Done()
		i.markDead()
	})
	e.root.Cleanup(func() {
		i.process.Kill()
		i.watching.Wait()
	})
	return i
}

// returnInstance keeps a healthy process, and kills one that is not.
func (e *Environment) returnInstance(i *Instance) {
	i.mu.Lock()
	good := i.died == 0 && i.URL != ""
	i.mu.Unlock()
	if !good {
		i.process.Kill()
		return
	}
	e.idle.mu.Lock()
	e.idle.idle = append(e.idle.idle, i)
	var surplus []*Instance
	if n := len(e.idle.idle) - maxIdle; n > 0 {
		surplus = slices.Clone(e.idle.idle[:n])
		e.idle.idle = slices.Delete(e.idle.idle, 0, n)
	}
	e.idle.mu.Unlock()
	for _, old := range surplus {
		old.process.Kill()
	}
}

// Target is the address for a load.
func (i *Instance) Target() load.Target { return load.Target{Name: i.Name, URL: i.URL} }

func (i *Instance) markDead() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.died == 0 {
		i.died = now()
	}
}

// Alive reports whether it has not ended.
func (i *Instance) Alive() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.died == 0
}

// Events returns the events that it has recorded since this experiment took it.
func (i *Instance) Events() ([]eventlog.Event, error) { return i.recorded.read() }

// deaths returns when it died, if it did.
func (i *Instance) deaths() []judge.Death {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.died == 0 {
		return nil
	}
	return []judge.Death{{Process: i.Name, At: i.died}}
}
