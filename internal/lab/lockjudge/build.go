package lockjudge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// BuildSource builds a lock from the text of its program, as if it stood in a folder of this one.
func BuildSource(ctx context.Context, text string) (command []string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "lab-source-")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(folder)
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, err
	}
	source, list := filepath.Join(folder, "main.go"), filepath.Join(folder, "overlay.json")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(here, sourceFolder, "main.go"): source}})
	if err = errors.Join(err, os.WriteFile(source, []byte(text), 0o600), os.WriteFile(list, overlay, 0o600)); err != nil {
		return nil, nil, err
	}
	return build(ctx, "./"+sourceFolder, "-overlay", list)
}

// sourceFolder is not there.
const sourceFolder = "lab-lock-in-memory"

// Build builds the lock in a folder, and returns the command that starts it, and what removes it.
func Build(ctx context.Context, pkg string) (command []string, remove func(), err error) {
	if info, err := os.Stat(pkg); err == nil && info.IsDir() && !filepath.IsAbs(pkg) {
		pkg = "./" + filepath.Clean(pkg)
	}
	return build(ctx, pkg)
}

func build(ctx context.Context, pkg string, flags ...string) (command []string, remove func(), err error) {
	folder, err := os.MkdirTemp("", "lab-lock-")
	if err != nil {
		return nil, nil, err
	}
	program := filepath.Join(folder, "lock")
	//nolint:gosec // the package that was asked for
	out, err := exec.CommandContext(ctx, "go", slices.Concat([]string{"build"}, flags, []string{"-o", program, pkg})...).CombinedOutput()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("build %s: %w\n%s", pkg, err, out), os.RemoveAll(folder))
	}
	return []string{program}, func() { _ = os.RemoveAll(folder) }, nil
}
