package testbed

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"seckill/internal/eventlog"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/judge"
	"seckill/internal/lab/load"
	"seckill/internal/testkit"
)

// Untraced is an extra setting of an API process that keeps it from recording events: for experiments that count
// commands.
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

// API returns n API processes, "api-1" and so on; 0 is as many as the options say. They are new, or an earlier
// experiment left them healthy. settings are further settings, as NAME=value, which take precedence over those of the
// run.
//
// The embedded environment has one process: an experiment that asks for more is skipped.
func (r *Rig) API(n int, settings ...string) []*Instance {
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
		r.Must(i.recorded.skipExisting())
		r.Follow(i.addTo)
	}
	return instances
}

// settings tell an API process where its servers are. The settings of the laboratory's own process must not reach it:
// they may lead to servers that are not ours.
func (r *Rig) settings() []string {
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
		r.engine.Redis, r.engine.Database = EmbeddedRedis, EmbeddedDatabase
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

// maxIdle bounds how many are kept: each has database connections, and their number is limited.
const maxIdle = 4

// takeInstance takes an idle process with the same settings, or starts one.
func (r *Rig) takeInstance(binary, name string, env []string) *Instance {
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

// eventFile follows the event file of a process.
type eventFile struct {
	path string

	mu     sync.Mutex
	offset int64 // of what has been read, up to the end of a line
	events []eventlog.Event
}

// skipExisting ignores what has been written so far.
func (j *eventFile) skipExisting() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events, j.offset = nil, 0
	info, err := os.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing has been written yet, or the process records nothing
		return nil
	case err != nil:
		return err
	}
	j.offset = info.Size()
	return nil
}

// read returns all events up to now. An incomplete last line, or one that a death cut off, is ignored.
func (j *eventFile) read() ([]eventlog.Event, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	f, err := os.Open(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, j.offset, 1<<62))
	if err != nil {
		return nil, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	fresh, err := eventlog.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", j.path, err)
	}
	j.offset += int64(len(data))
	j.events = append(j.events, fresh...)
	return slices.Clip(j.events), nil
}

// apiBinary returns the path of the service's binary, and builds it if there is none. The experiment's stopwatch is
// stopped meanwhile.
func (r *Rig) apiBinary() string {
	if r.stopwatch != nil {
		defer r.stopwatch.stop()()
	}
	return r.env.binary.get(r, func() string {
		if given := r.env.options.APIBinary; given != "" {
			path, err := filepath.Abs(given)
			r.Must(err)
			if _, err := os.Stat(path); err != nil {
				r.Fatalf("the service's binary: %w", err)
			}
			return path
		}
		name := "api"
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		if self, err := os.Executable(); err == nil {
			beside := filepath.Join(filepath.Dir(self), name)
			if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
				return beside
			}
		}
		path := filepath.Join(r.buildFolder(), name)
		r.build(path)
		return path
	})
}

// buildFolder returns the folder in which the binary is built: one folder of the user's cache for each working folder,
// so that go build finds the last binary there and does nothing if nothing has changed. Without a cache it is the
// environment's folder.
func (r *Rig) buildFolder() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		return r.env.folder
	}
	here, err := os.Getwd()
	if err != nil {
		return r.env.folder
	}
	sum := sha256.Sum256([]byte(here))
	folder := filepath.Join(cache, "seckill", fmt.Sprintf("lab-%x", sum[:8]))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return r.env.folder
	}
	return folder
}

const (
	// shortBuild is how long a build takes where little has changed: its end is not announced.
	shortBuild = time.Second
	// buildProgressEvery is how often a build that still runs is announced.
	buildProgressEvery = 10 * time.Second
)

// ErrNoService means that the service has no binary here, and cannot be built: another try comes to the same.
var ErrNoService = errors.New("the service has no binary here, and cannot be built")

func (r *Rig) build(path string) {
	e := r.env
	compiler, err := exec.LookPath("go")
	if err != nil {
		r.Fatalf("%w: %w; run this in the folder of the source", ErrNoService, err)
	}
	began := time.Now()
	p := testkit.Start(e.root, testkit.Command{
		Path: compiler, Args: []string{"build", "-o", path, "seckill/cmd/api"},
		Env: []string{"GOTMPDIR=" + e.folder}, // files of a killed build are removed with the environment
	})
	e.options.Notice(i18n.F("building the service from source (go build seckill/cmd/api)"))
	news, long := time.NewTicker(buildProgressEvery), i18n.F("; the first time this may take some minutes")
	defer news.Stop()
	for done := false; !done; {
		select {
		case <-p.Done():
			done = true
		case <-news.C:
			e.options.Notice(i18n.Join(i18n.F("still building the service, %.0f s", time.Since(began).Seconds()), long))
			long = i18n.Text{} // it is said once
		case <-e.root.ctx.Done():
			p.Kill()
			r.Fatalf("while the service was built: %w", e.root.ctx.Err())
		}
	}
	if err := p.Wait(); err != nil {
		r.Fatalf("%w: go build: %w; run this in the folder of the source\n%s", ErrNoService, err, p.Output())
	}
	if time.Since(began) > shortBuild {
		e.options.Notice(i18n.F("the service is built, in %.0f s", time.Since(began).Seconds()))
	}
}
