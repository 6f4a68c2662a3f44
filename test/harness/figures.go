package harness

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"
)

// Figures is what a soak test has measured: for each thing how often it kept the promised bound, and the longest that
// it took. How fast a machine is decides no test, so that nothing here fails one.
type Figures struct {
	mu   sync.Mutex
	rows []*figure
}

type figure struct {
	what           string
	bound, longest time.Duration
	kept, of       int
}

// NewFigures prints the table when the test ends.
func NewFigures(t *testing.T) *Figures {
	f := &Figures{}
	t.Cleanup(func() { t.Logf("\n%s", f) })
	return f
}

// Took adds a measurement of something with a bound.
func (f *Figures) Took(what string, took, bound time.Duration) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var row *figure
	for _, r := range f.rows {
		if r.what == what {
			row = r
		}
	}
	if row == nil {
		row = &figure{what: what, bound: bound}
		f.rows = append(f.rows, row)
	}
	row.of++
	row.longest = max(row.longest, took)
	if took <= bound {
		row.kept++
	}
}

func (f *Figures) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "what\tpromised\tkept\tlongest")
	for _, r := range f.rows {
		fmt.Fprintf(table, "%s\t%v\t%d of %d\t%v\n", r.what, r.bound, r.kept, r.of, r.longest.Round(time.Millisecond))
	}
	_ = table.Flush() // into memory
	return text.String()
}
