package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"golang.org/x/term"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
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

// progress shows the progress of a run: one line for each finished experiment and, on a terminal, a line that is
// overwritten with what happens now.
type progress struct {
	w           io.Writer
	total       int
	interactive bool
	lang        i18n.Language

	mu       sync.Mutex
	finished int
}

// note shows what happens now.
func (p *progress) note(what string) {
	if !p.interactive {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, "\r\x1b[K%s…", what)
}

// clear removes the line of note.
func (p *progress) clear() {
	if !p.interactive {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprint(p.w, "\r\x1b[K")
}

// say prints a line that stays.
func (p *progress) say(what string) {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintln(p.w, what)
}

// done prints the result of an experiment, and why there is none.
func (p *progress) done(r finding.Result) {
	p.clear()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finished++
	digits := len(strconv.Itoa(p.total))
	fmt.Fprintf(p.w, "[%*d/%d] %-34s %s %s %s\n", digits, p.finished, p.total, r.ID, padded(observed(&r).In(p.lang), 10), padded(tick(&r).In(p.lang), 15),
		i18n.F("%5.1f s", float64(r.DurationMS)/1000).In(p.lang))
	if r.Failed != "" {
		reason, _, _ := strings.Cut(r.Failed, "\n")
		fmt.Fprintf(p.w, "%*s %s\n", 2*digits+3, "", reason)
	}
}

// padded fills a text up to a number of columns.
func padded(text string, columns int) string {
	return text + strings.Repeat(" ", max(columns-i18n.Columns(text), 0))
}

// wrap breaks a text into lines of at most that many columns.
func wrap(text string, columns int) string {
	return strings.Join(i18n.Lines(text, columns, unicode.IsSpace), "\n")
}

// hang wraps a text that begins in a column, and indents its other lines to it.
func hang(text string, indent, columns int) string {
	return strings.ReplaceAll(wrap(text, columns-indent), "\n", "\n"+strings.Repeat(" ", indent))
}

// number formats whole numbers without decimals, others with up to two.
func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', 2, 64), "0"), ".")
}
