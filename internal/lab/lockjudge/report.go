package lockjudge

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/load"
)

// Report prints the judgement: what broke with its history, and then what held.
func (j *Judgement) Report(w io.Writer) error {
	var text strings.Builder
	var held, untried, leftOut, others []string
	heading := Grade(-1)
	for _, r := range j.Results {
		switch {
		case r.Untried != "":
			untried = append(untried, fmt.Sprintf("%s (%s)", r.Behaviour, firstLine(r.Untried)))
			continue
		case !r.Broke():
			held = append(held, string(r.Behaviour))
			continue
		case r.LeftOut && r.Behaviour != j.Goal:
			leftOut = append(leftOut, string(r.Behaviour))
			continue
		case j.Goal != "" && r.Behaviour != j.Goal:
			others = append(others, string(r.Behaviour))
			continue
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
	if len(others) > 0 {
		fmt.Fprintf(&text, "Breaks, and is not the goal: %s\n", strings.Join(others, ", "))
	}
	if len(leftOut) > 0 {
		fmt.Fprintf(&text, "Left out by the lock, and so not there: %s\n", strings.Join(leftOut, ", "))
	}
	if len(untried) > 0 {
		fmt.Fprintf(&text, "Not tried: %s\n", strings.Join(untried, "; "))
	}
	since := ""
	if len(j.Since) > 0 {
		since = "Since the last time: " + strings.Join(j.Since, ", ") + "\n"
	}
	_, err := fmt.Fprintf(w, "%s\n%d of %d behaviours hold, in %.0f s, on %s\n%s%s",
		j.Headline(), len(held), len(j.Results)-len(untried), j.Took.Seconds(), j.Engine, since, text.String())
	return err
}

// ReportSales prints what was sold under the lock.
func ReportSales(w io.Writer, sales []finding.Result) error {
	if len(sales) == 0 {
		return nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "\nA SALE UNDER THE LOCK\n\n  %d vouchers, %d buyers in %d processes; only the lock stands between them\n\n",
		saleStock, saleBuyers, saleProcesses)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "  orders\toversold\tduplicates\ttwo holders\twrong releases\tbusy\t")
	for i := range sales {
		r := &sales[i]
		fmt.Fprintf(table, "  %d\t%d\t%d\t%d\t%d\t%d\t  %s: %s\n", r.Orders, r.Anomalies[finding.Oversold],
			r.Anomalies[finding.DuplicateOrders], r.Anomalies[finding.Overlaps], r.Anomalies[finding.WrongReleases],
			r.Answers[load.Busy], r.Observed, r.Title)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// Shown is the sale whose picture says most: the first one that broke, or else the last one.
func Shown(sales []finding.Result) *finding.Result {
	for i := range sales {
		if sales[i].Observed == finding.Breaks || i == len(sales)-1 {
			return &sales[i]
		}
	}
	return nil
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
