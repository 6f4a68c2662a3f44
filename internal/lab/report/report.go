package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// Report is the result of a run of the laboratory.
type Report struct {
	Entries []Entry // in the order of the catalogue; those of one Group stand together
	Started time.Time
	Took    time.Duration
	Machine string // such as "linux/amd64, 2 cores"
	Engine  finding.Engine
	Seed    int64
	Command string // the command that repeats the run
	// Language is that of the page; "": English. The texts of the entries are in it.
	Language i18n.Language
	// Kinds are the columns of the matrix; none: [finding.Kinds].
	Kinds []finding.Info
}

// Entry is an experiment with its result and its texts.
type Entry struct {
	Result      finding.Result
	Hypothesis  string
	Arrangement string
	Verdict     string // how it came out, told from the run
	Why         string
	Cure        string
	Partner     string // the id of the experiment with the other verdict
	Sources     []Source
	Reports     []Link // public reports of real programs that had the fault
	// Setup is what the hypothesis is about, as JSON; shown on demand.
	Setup json.RawMessage
	// K6 is the command that shows the same over HTTP; "" if it cannot be seen there.
	K6 string
}

// Source is a section that describes the failure.
type Source struct {
	Document, Section string
}

// Link is a page elsewhere.
type Link struct{ Text, URL string }

// File is the page that [WriteDir] writes.
const File = "index.html"

// WriteDir writes the report into a folder, and creates the folder if necessary. It replaces
// the page atomically: a reader finds the old page or the new one.
func WriteDir(dir string, r Report) error {
	return WritePage(dir, func(w io.Writer) error { return HTML(w, r) })
}

// WritePage writes another page in the same way.
func WritePage(dir string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	temp, err := os.CreateTemp(dir, "."+File+".*")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() {
		if err != nil {
			_ = temp.Close() // it may already be closed, and the first error counts
			_ = os.Remove(temp.Name())
		}
	}()
	if err := write(temp); err != nil {
		return err
	}
	return finish(temp, filepath.Join(dir, File))
}

// finish renames the finished temporary file.
func finish(temp *os.File, path string) error {
	if err := temp.Chmod(0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := temp.Close(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// HTML writes the report as one page that loads nothing from the network.
func HTML(w io.Writer, r Report) error {
	if r.Language == "" {
		r.Language = i18n.English
	}
	t, err := pageTemplate(r.Language)
	if err != nil {
		return err
	}
	if err := t.Execute(w, newPage(r)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
