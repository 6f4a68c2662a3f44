package stage

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"seckill/internal/testkit"
)

// apiBinary is the path of the service's binary, built where there is none.
func (s *Stage) apiBinary() string {
	return s.house.binary.get(s, func() string {
		h := s.house
		if given := h.options.APIBinary; given != "" {
			path, err := filepath.Abs(given)
			s.must(err)
			if _, err := os.Stat(path); err != nil {
				s.Fatalf("the service's binary: %w", err)
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
		path := filepath.Join(h.folder, name)
		s.build(path)
		return path
	})
}

func (s *Stage) build(path string) {
	h := s.house
	compiler, err := exec.LookPath("go")
	if err != nil {
		s.Fatalf("the service has no binary here, and cannot be built: %w; give the binary's path (lab run --api)", err)
	}
	h.options.Progress("building the service")
	p := testkit.Start(h.root, testkit.Command{
		Path: compiler, Args: []string{"build", "-o", path, "seckill/cmd/api"},
		Env: []string{"GOTMPDIR=" + h.folder}, // what a build that is killed leaves goes with the house
	})
	select {
	case <-p.Done():
	case <-h.root.ctx.Done():
		p.Kill()
		s.Fatalf("while the service was built: %w", h.root.ctx.Err())
	}
	if err := p.Wait(); err != nil {
		s.Fatalf("the service has no binary here, and cannot be built from this folder: go build: %w\n%s\ngive the binary's path (lab run --api)", err, p.Output())
	}
}
