package judgetest

import (
	"regexp"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// CheckWitness fails if a witness is malformed: it has no summary, a span or mark begins before the picture or names an
// actor without a lane, or two lanes have the same name.
func CheckWitness(t *testing.T, w finding.Witness) {
	t.Helper()
	if w.Summary.IsZero() || len(w.Lanes) == 0 {
		t.Errorf("%s: summary %q, %d lanes", w.Kind, w.Summary, len(w.Lanes))
	}
	lanes := map[string]bool{}
	wrong := false
	for _, l := range w.Lanes {
		if lanes[l.Name] {
			t.Errorf("%s: two lanes are called %q", w.Kind, l.Name)
		}
		lanes[l.Name] = true
	}
	for _, l := range w.Lanes {
		for _, s := range l.Spans {
			if s.From < 0 || s.To < s.From {
				t.Errorf("%s: %s: a span from %v to %v", w.Kind, l.Name, s.From, s.To)
			}
			if s.Who != "" && !lanes[s.Who] {
				t.Errorf("%s: %s: a span of %q, who has no lane", w.Kind, l.Name, s.Who)
			}
			wrong = wrong || s.Wrong
		}
		for _, m := range l.Marks {
			if m.At < 0 || m.Who != "" && !lanes[m.Who] {
				t.Errorf("%s: %s: a mark %+v", w.Kind, l.Name, m)
			}
			wrong = wrong || m.Wrong
		}
	}
	if wrong != (w.Kind != "") {
		t.Errorf("kind %q, and something is wrong in it: %v", w.Kind, wrong)
	}
	CheckTexts(t, w)
}

// CheckTexts fails if a text of a witness lacks a value, or if it is told in Chinese and English at once.
func CheckTexts(t *testing.T, w finding.Witness) {
	t.Helper()
	checkText(t, w.Summary)
	for _, also := range w.Also {
		checkText(t, also.Summary)
	}
	for _, l := range w.Lanes {
		if told := i18n.Name(l.Name).In(i18n.Chinese); sentence.MatchString(told) {
			t.Errorf("the lane %q is %q in Chinese", l.Name, told)
		}
		for _, s := range l.Spans {
			checkText(t, s.Label)
		}
		for _, m := range l.Marks {
			checkText(t, m.Label)
		}
	}
}

var (
	placeholder = regexp.MustCompile(`%!|%\[?\d*\]?[sdvf]`)
	sentence    = regexp.MustCompile(`\b[a-z]{2,} [a-z]{2,} [a-z]{2,}\b`)
)

func checkText(t *testing.T, text i18n.Text) {
	t.Helper()
	for language, told := range text.All() {
		if placeholder.MatchString(told) || language == i18n.Chinese && sentence.MatchString(told) {
			t.Errorf("%s: %q", language, told)
		}
	}
}
