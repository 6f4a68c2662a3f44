package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"seckill/internal/lab/lockjudge/template"
)

// lockName are names that are a Go package, a folder and a part of a key.
var lockName = regexp.MustCompile(`^[a-z][a-z0-9]{0,30}$`)

// newLock writes a lock with a mistake into a new folder.
func newLock(_ context.Context, args []string, stdout, _ io.Writer) error {
	switch {
	case isHelp(args):
		return errHelp
	case len(args) != 1:
		return usagef("how is the lock to be called?")
	case !lockName.MatchString(args[0]):
		return usagef("%q cannot be the name of a lock: small letters and digits, a letter first", args[0])
	}
	name := args[0]
	if module, err := os.ReadFile("go.mod"); err != nil || !strings.HasPrefix(string(module), "module seckill\n") {
		return usagef("a new lock belongs in this repository: run lab in its folder, where go.mod is")
	}
	if err := os.Mkdir(name, 0o750); err != nil {
		return err
	}
	path := filepath.Join(name, "main.go")
	if err := os.WriteFile(path, []byte(template.Source(name)), 0o600); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "wrote %s, a lock with one mistake. Find it:\n\n  go run ./cmd/lab judge ./%s\n", path, name)
	return err
}
