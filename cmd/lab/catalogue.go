package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"seckill/internal/lab/catalogue"
	"seckill/internal/lab/experiments"
)

func catalogueHelp(w io.Writer) {
	fmt.Fprintf(w, `lab catalogue prints the failure catalogue, made from the experiments' own data.

usage: lab catalogue [--write]

  --write   write %s and %s
            into the module that the current folder belongs to
`, catalogue.MarkdownPath, catalogue.K6Path)
}

func writeCatalogue(_ context.Context, args []string, stdout, stderr io.Writer) error {
	var write bool
	flags := newFlags("catalogue")
	flags.BoolVar(&write, "write", false, "")
	rest, err := parseAnywhere(flags, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usagef("unexpected argument %q", rest[0])
	}
	all, err := experiments.All()
	if err != nil {
		return err
	}
	page, err := catalogue.Markdown(all)
	if err != nil {
		return err
	}
	if !write {
		_, err := stdout.Write(page)
		return err
	}
	options, err := catalogue.K6(all)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	for path, content := range map[string][]byte{catalogue.MarkdownPath: page, catalogue.K6Path: options} {
		if err := os.WriteFile(filepath.Join(root, path), content, 0o644); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "wrote", path)
	}
	return nil
}

// moduleRoot returns the folder of this module that contains the current folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		switch {
		case err == nil && bytes.HasPrefix(content, []byte("module seckill\n")):
			return dir, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("--write: the current folder does not lie in the module seckill")
		}
		dir = parent
	}
}
