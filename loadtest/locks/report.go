package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is a subject in a scenario.
type row struct {
	scenario scenario
	subject  subject
	rounds   []measurement
	counted  *measurement // nil until the last round
}

func rowsFor(only *regexp.Regexp) []*row {
	var rows []*row
	for _, s := range scenarios() {
		for _, sub := range subjects() {
			if only.MatchString(s.name + "/" + sub.name) {
				rows = append(rows, &row{scenario: s, subject: sub})
			}
		}
	}
	return rows
}

func violations(rows []*row) int {
	n := 0
	for _, r := range rows {
		for _, m := range r.rounds {
			n += m.Violations
		}
		if r.counted != nil {
			n += r.counted.Violations
		}
	}
	return n
}

// report prints the results. Rows without a measurement are left out.
func report(w io.Writer, o options, server string, rows []*row) error {
	var measured []*row
	for _, r := range rows {
		if len(r.rounds) > 0 {
			measured = append(measured, r)
		}
	}
	if len(measured) == 0 {
		return nil
	}
	if o.json {
		return reportJSON(w, o, server, measured)
	}
	return reportTable(w, o, server, measured)
}

func reportJSON(w io.Writer, o options, server string, rows []*row) error {
	type jsonRow struct {
		Scenario string        `json:"scenario"`
		Subject  string        `json:"subject"`
		Rounds   []measurement `json:"rounds"`
		Counted  *measurement  `json:"counted,omitempty"`
	}
	out := struct {
		Server    string            `json:"server"`
		Go        string            `json:"go"`
		CPUs      int               `json:"cpus"`
		Libraries map[string]string `json:"libraries"`
		Duration  time.Duration     `json:"duration_ns"`
		Rows      []jsonRow         `json:"rows"`
	}{server, runtime.Version(), runtime.NumCPU(), versions(), o.duration, nil}
	for _, r := range rows {
		out.Rows = append(out.Rows, jsonRow{r.scenario.name, r.subject.name, r.rounds, r.counted})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

var columns = []string{
	"scenario", "lock", "grants/s", "wait p50", "wait p99", "longest wait",
	"commands per grant: sent", "executed", "grants per goroutine: least, most", "without any", "gave up", "two holders",
}

func reportTable(w io.Writer, o options, server string, rows []*row) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s, %s/%s, %d CPUs shared by clients and server; %d × %v each.", server, runtime.Version(),
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), o.rounds, o.duration)
	for _, library := range []string{"redsync/v4", "redislock", "rueidis", "go-redis/v9"} {
		fmt.Fprintf(&text, " %s %s.", library, versions()[library])
	}
	text.WriteString("\nMedians over the rounds, in brackets the least and the most; longest wait, goroutines without any grant, waits given up and two holders: the worst round.\n")
	if incomplete(o, rows) {
		text.WriteString("Incomplete: it was interrupted, or measurements failed.\n")
	}
	text.WriteString("\n")
	line(&text, columns)
	rule := make([]string, len(columns))
	for i := range rule {
		rule[i] = "---:"
	}
	rule[0], rule[1] = "---", "---"
	line(&text, rule)
	for _, r := range rows {
		line(&text, r.cells())
	}
	_, err := io.WriteString(w, text.String())
	return err
}

func incomplete(o options, rows []*row) bool {
	return slices.ContainsFunc(rows, func(r *row) bool { return len(r.rounds) < o.rounds || r.counted == nil })
}

func line(w io.Writer, cells []string) {
	fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}

func (r *row) cells() []string {
	name := r.subject.name
	if r.subject.ours {
		name = "**" + name + "**"
	}
	rate := spreadOf(r.rounds, func(m measurement) float64 { return m.PerSecond })
	p50 := spreadOf(r.rounds, func(m measurement) time.Duration { return m.P50 })
	p99 := spreadOf(r.rounds, func(m measurement) time.Duration { return m.P99 })
	longest := spreadOf(r.rounds, func(m measurement) time.Duration { return m.Max })
	gaveUp := spreadOf(r.rounds, func(m measurement) int { return m.GaveUp })
	both := spreadOf(r.rounds, func(m measurement) int { return m.Violations })
	cells := []string{
		r.scenario.name, name,
		ranged(rate, thousands, len(r.rounds)),
		short(p50.median),
		ranged(p99, short, len(r.rounds)),
		short(longest.most),
		"–", "–", "–", "–",
		strconv.Itoa(gaveUp.most), strconv.Itoa(both.most),
	}
	if r.counted != nil {
		cells[6], cells[7] = fmt.Sprintf("%.1f", r.counted.Sent), fmt.Sprintf("%.1f", r.counted.Executed)
	}
	if r.scenario.contended() {
		least := spreadOf(r.rounds, func(m measurement) int { return m.Least })
		most := spreadOf(r.rounds, func(m measurement) int { return m.Most })
		starved := spreadOf(r.rounds, func(m measurement) int { return m.Starved })
		cells[8], cells[9] = fmt.Sprintf("%d, %d", least.median, most.median), strconv.Itoa(starved.most)
		if least.median > 0 {
			cells[8] += fmt.Sprintf(" (%.1f×)", float64(most.median)/float64(least.median))
		}
	}
	return cells
}

// ranged formats a median with its range, if there is one.
func ranged[T cmp.Ordered](s spread[T], write func(T) string, rounds int) string {
	if rounds == 1 {
		return write(s.median)
	}
	return fmt.Sprintf("%s (%s–%s)", write(s.median), write(s.least), write(s.most))
}

// versions returns the versions of the linked libraries, by the last part of their names.
func versions() map[string]string {
	found := map[string]string{"redsync/v4": "", "redislock": "", "rueidis": "", "go-redis/v9": ""}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return found
	}
	for _, dep := range info.Deps {
		for name := range found {
			if strings.HasSuffix(dep.Path, "/"+name) {
				found[name] = dep.Version
			}
		}
	}
	return found
}

// thousands formats 53012.4 as 53,012.
func thousands(f float64) string {
	digits := strconv.FormatFloat(f, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// short formats a duration with a suitable precision.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < 10*time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
