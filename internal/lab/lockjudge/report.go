package lockjudge

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// ErrBroken means that something graver than a comfort breaks.
var ErrBroken = errors.New("the lock breaks")

// Report prints results: what broke with its history, and then what held. It returns
// [ErrBroken] with the number of behaviours that broke, comforts not counted.
func Report(w io.Writer, name, engine string, took time.Duration, results []Judged) error {
	var text strings.Builder
	var held, untried []string
	broken, grave := 0, 0
	heading := Grade(-1)
	for _, r := range results {
		switch {
		case r.Untried != "":
			untried = append(untried, fmt.Sprintf("%s (%s)", r.Behaviour, firstLine(r.Untried)))
			continue
		case r.Broken == "":
			held = append(held, string(r.Behaviour))
			continue
		}
		broken++
		if r.Grade < Comfort {
			grave++
		}
		if r.Grade != heading {
			heading = r.Grade
			fmt.Fprintf(&text, "\n%s\n", strings.ToUpper(heading.String()))
		}
		fmt.Fprintf(&text, "\n  %s breaks: %s\n", r.Behaviour, r.Behaviour.Description())
		fmt.Fprintf(&text, "  seen: %s\n", r.Broken)
		if r.Grade == Comfort {
			continue // it is what it is, without a story
		}
		for _, e := range r.History {
			fmt.Fprintf(&text, "  %8.1f ms  %-10s %s\n", float64(e.At.Microseconds())/1000, e.Who, e.What)
		}
	}
	fmt.Fprintf(&text, "\nHeld: %s\n", orNone(held))
	if len(untried) > 0 {
		fmt.Fprintf(&text, "Not tried: %s\n", strings.Join(untried, "; "))
	}
	_, err := fmt.Fprintf(w, "%s: %d of %d behaviours break, in %.0f s, on %s\n%s",
		name, broken, len(results)-len(untried), took.Seconds(), engine, text.String())
	if err == nil && grave > 0 {
		err = fmt.Errorf("%w: %d behaviours that matter", ErrBroken, grave)
	}
	return err
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
