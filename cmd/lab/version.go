package main

import (
	"context"
	"fmt"
	"io"

	"seckill/internal/buildinfo"
)

func versionHelp(w io.Writer) {
	fmt.Fprint(w, "lab version prints the version, the commit and the Go that built it.\n\nusage: lab version\n")
}

func printVersion(_ context.Context, args []string, stdout, _ io.Writer) error {
	switch {
	case len(args) == 1 && (args[0] == "-h" || args[0] == "-help" || args[0] == "--help"):
		return errHelp
	case len(args) > 0:
		return usagef("unexpected argument %q", args[0])
	}
	_, err := fmt.Fprintln(stdout, buildinfo.Read().Line("lab"))
	return err
}
