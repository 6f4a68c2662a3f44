package finding

import (
	"slices"

	"seckill/internal/lab/tell"
)

// Seen tells what was seen in a run, and what was expected of it and did not happen. It is true
// of every run: also with another setup, or with another number.
func (r *Result) Seen() tell.Text {
	var deciding, besides, absent []tell.Text
	for _, info := range Kinds() {
		n, decides := r.Anomalies[info.Kind], slices.Contains(r.About, info.Kind)
		switch {
		case n > 0 && decides:
			deciding = append(deciding, info.Counted(n))
		case n > 0:
			besides = append(besides, info.Counted(n))
		case decides:
			absent = append(absent, tell.Key(info.Title))
		}
	}
	seen, missed := tell.F("Seen: %s.", tell.List(deciding...)), tell.F("Not seen: %s.", tell.List(absent...))
	if r.Expect == Holds {
		seen = tell.F("Not expected, and seen: %s.", tell.List(deciding...))
	}
	if r.Expect == Breaks && len(r.About) > 0 && r.Anomalies[r.About[0]] == 0 {
		missed = tell.F("Expected, and not seen: %s.", tell.List(absent...))
	}
	var said []tell.Text
	for _, one := range []struct {
		text tell.Text
		of   []tell.Text
	}{
		{seen, deciding}, {missed, absent},
		{tell.F("Also seen, but not counted in the verdict: %s.", tell.List(besides...)), besides},
	} {
		if len(one.of) > 0 {
			said = append(said, one.text)
		}
	}
	return tell.Sentences(said...)
}
