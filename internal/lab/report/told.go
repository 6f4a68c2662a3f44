package report

import (
	"fmt"
	"io"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/steps"
)

// Steps writes what a picture shows as text, width columns wide: a sentence for each step, with its time. What should
// not happen has a cross, and its cause an exclamation mark.
func Steps(w io.Writer, wit finding.Witness, width int, lang i18n.Language) error {
	all := steps.New(wit).Steps
	widest := 0
	for _, s := range all {
		widest = max(widest, length(when(s.At).In(lang)))
	}
	var out strings.Builder
	for _, s := range all {
		at, sign := when(s.At).In(lang), " "
		switch {
		case s.Wrong:
			sign = "✗"
		case s.Cause:
			sign = "!"
		}
		indent := strings.Repeat(" ", widest-length(at)+2)
		for i, line := range wrap(s.Says.In(lang), max(width, narrowest)-widest-5) {
			if i > 0 {
				at, sign, indent = "", " ", strings.Repeat(" ", widest+2)
			}
			fmt.Fprintf(&out, "%s%s %s %s\n", indent, at, sign, line)
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}
