package testkit

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
)

// programs are the project's commands that this binary has built, all in one folder.
type programs struct {
	mu   sync.Mutex
	dir  string
	path map[string]string
}

// Program returns the path of cmd/name, built without the race detector. The tests of a binary share it, since linking
// takes seconds, and all programs lie in one folder, where lab looks for api.
func Program(t TB, name string) string {
	t.Helper()
	check(t, allowed())
	path, err := binary.programs.build(name)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return path
}

func (p *programs) build(name string) (path string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if path, found := p.path[name]; found {
		return path, nil
	}
	if p.dir == "" {
		dir, _, err := Folder() // removed by the reaper
		if err != nil {
			return "", err
		}
		p.dir, p.path = dir, map[string]string{}
	}
	path = filepath.Join(p.dir, name)
	if out, err := exec.Command("go", "build", "-ldflags=-w", "-o", path, "seckill/cmd/"+name).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build seckill/cmd/%s: %w\n%s", name, err, out)
	}
	p.path[name] = path
	return path, nil
}
