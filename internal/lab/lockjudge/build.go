package lockjudge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Build builds the lock in a folder, and returns the command that starts it, and what removes it.
func Build(ctx context.Context, pkg string) (command []string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "lab-lock-")
	if err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(pkg); err == nil && info.IsDir() && !filepath.IsAbs(pkg) {
		pkg = "./" + filepath.Clean(pkg)
	}
	program := filepath.Join(folder, "lock")
	//nolint:gosec // the package that was asked for
	out, err := exec.CommandContext(ctx, "go", "build", "-o", program, pkg).CombinedOutput()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("build %s: %w\n%s", pkg, err, out), os.RemoveAll(folder))
	}
	return []string{program}, func() { _ = os.RemoveAll(folder) }, nil
}
