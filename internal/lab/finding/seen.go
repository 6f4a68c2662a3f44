package finding

import (
	"slices"

	"seckill/internal/lab/i18n"
)

// Seen tells what was seen in a run, and what was expected of it and did not happen. It is true
// of every run: also with another setup, or with another number.
func (r *Result) Seen() i18n.Text {
	var deciding, besides, absent []i18n.Text
	for _, info := range Kinds() {
		n, decides := r.Anomalies[info.Kind], slices.Contains(r.About, info.Kind)
		switch {
		case n > 0 && decides:
			deciding = append(deciding, info.Counted(n))
		case n > 0:
			besides = append(besides, info.Counted(n))
		case decides:
			absent = append(absent, i18n.Key(info.Title))
		}
	}
	seen, missed := i18n.F("Seen: %s.", i18n.List(deciding...)), i18n.F("Not seen: %s.", i18n.List(absent...))
	if r.Expect == Holds {
		seen = i18n.F("Not expected, and seen: %s.", i18n.List(deciding...))
	}
	if r.Expect == Breaks && len(r.About) > 0 && r.Anomalies[r.About[0]] == 0 {
		missed = i18n.F("Expected, and not seen: %s.", i18n.List(absent...))
	}
	var said []i18n.Text
	for _, one := range []struct {
		text i18n.Text
		of   []i18n.Text
	}{
		{seen, deciding}, {missed, absent},
		{i18n.F("Also seen, but not counted in the verdict: %s.", i18n.List(besides...)), besides},
	} {
		if len(one.of) > 0 {
			said = append(said, one.text)
		}
	}
	return i18n.Sentences(said...)
}
