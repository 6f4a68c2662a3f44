package testbed

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"seckill/internal/lab/i18n"
	"seckill/internal/testkit"
)

// apiBinary returns the path of the service's binary, and builds it if there is none. The
// experiment's stopwatch is stopped meanwhile.
func (r *Run) apiBinary() string {
	if r.stopwatch != nil {
		defer r.stopwatch.stop()()
	}
	return r.env.binary.get(r, func() string {
		if given := r.env.options.APIBinary; given != "" {
			path, err := filepath.Abs(given)
			r.must(err)
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

// buildFolder returns the folder in which the binary is built: one folder of the user's cache
// for each working folder, so that go build finds the last binary there and does nothing if
// nothing has changed. Without a cache it is the environment's folder.
func (r *Run) buildFolder() string {
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
	// shortBuild is how long a build may take before it is announced: nothing had changed.
	shortBuild = time.Second
	// buildProgressEvery is how often a build that still runs is announced.
	buildProgressEvery = 15 * time.Second
)

func (r *Run) build(path string) {
	e := r.env
	compiler, err := exec.LookPath("go")
	if err != nil {
		r.Fatalf("the service has no binary here, and cannot be built: %w; give the binary's path (lab run --api)", err)
	}
	began := time.Now()
	p := testkit.Start(e.root, testkit.Command{
		Path: compiler, Args: []string{"build", "-o", path, "seckill/cmd/api"},
		Env: []string{"GOTMPDIR=" + e.folder}, // files of a killed build are removed with the environment
	})
	news, said := time.NewTimer(shortBuild), false
	defer news.Stop()
	for done := false; !done; {
		select {
		case <-p.Done():
			done = true
		case <-news.C:
			if said {
				e.options.Notice(i18n.F("still building the service, %.0f s", time.Since(began).Seconds()))
			} else {
				e.options.Notice(i18n.F("building the service from source (go build seckill/cmd/api); the first time this takes a minute or more"))
			}
			said = true
			news.Reset(buildProgressEvery)
		case <-e.root.ctx.Done():
			p.Kill()
			r.Fatalf("while the service was built: %w", e.root.ctx.Err())
		}
	}
	if err := p.Wait(); err != nil {
		r.Fatalf("the service has no binary here, and cannot be built from this folder: go build: %w\n%s\ngive the binary's path (lab run --api)", err, p.Output())
	}
	if said {
		e.options.Notice(i18n.F("the service is built, in %.0f s", time.Since(began).Seconds()))
	}
}
