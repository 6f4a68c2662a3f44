package main

import (
	"io"
	"os"
	"strconv"

	"golang.org/x/term"

	"seckill/internal/lab/report"
)

// interactive reports whether a reader or writer is a terminal.
func interactive(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Widths, in columns.
const (
	defaultWidth = 100 // of what is not a terminal
	narrow       = 80  // of a usual terminal: for texts that go no wider
	narrowest    = 60
	widest       = 160
)

// width is the number of columns: that of the terminal, unless COLUMNS says otherwise.
func width(w io.Writer) int {
	if !interactive(w) {
		return defaultWidth
	}
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil {
		f, _ := w.(*os.File) // it is one, or it would not be interactive
		if columns, _, err = term.GetSize(int(f.Fd())); err != nil || columns == 0 {
			return defaultWidth
		}
	}
	return min(max(columns, narrowest), widest)
}

// colour reports whether to use colours.
func colour(w io.Writer) bool { return report.ColourWanted(os.Getenv, interactive(w)) }
