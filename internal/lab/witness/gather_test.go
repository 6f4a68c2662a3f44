package witness_test

import (
	"regexp"
	"slices"
	"testing"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/witness"
	"seckill/internal/testkit/fail"
)

// picture is a witness of actors between two times.
func picture(kind finding.Kind, summary string, from, to float64, actors ...string) finding.Witness {
	w := finding.Witness{Kind: kind, Summary: told(summary)}
	for _, name := range actors {
		w.Lanes = append(w.Lanes, finding.Lane{Name: name, Role: finding.Actor, Spans: []finding.Span{
			{Kind: finding.Held, From: from, To: to, Who: name},
		}})
	}
	return w
}

// told is a text that names buyers.
func told(text string) i18n.Text {
	var parts []i18n.Text
	for text != "" {
		at := regexp.MustCompile(`buyer \d+|$`).FindStringIndex(text)
		parts = append(parts, i18n.Plain(text[:at[0]]), i18n.Of(i18n.Name(text[at[0]:at[1]])))
		text = text[at[1]:]
	}
	return i18n.Join(parts...)
}

// Two buyers of a crowd oversell, and are two holders at that time: one picture. Two others are a picture of their own.
// The buyers are numbered as they appear; one without a lane has no number.
func TestGather(t *testing.T) {
	first := picture(finding.Oversold, "buyer 41 and buyer 53 read 10; buyer 7 waits", 10, 90, "buyer 53 (api-2)", "buyer 41 (api-1)")
	first.Lanes = append(first.Lanes, finding.Lane{Name: "Redis", Role: finding.LockStore, Marks: []finding.Mark{
		{Kind: finding.Deletes, Label: told("the release of buyer 53 deletes the lock of buyer 41"), Who: "buyer 53 (api-2)", Of: "buyer 41 (api-1)"},
	}})
	got := witness.Gather([]finding.Witness{
		first,
		picture(finding.Overlaps, "buyer 41 is in beside buyer 53", 20, 80, "buyer 41 (api-1)"),
		picture(finding.StaleWrites, "later", 100, 200, "buyer 41 (api-1)"),
		picture(finding.LostUpdates, "buyer 5 again", 10, 90, "buyer 5 (api-1)", "buyer 5 (api-1), again"),
	})
	if len(got) != 3 || got[1].Kind != finding.StaleWrites || got[2].Kind != finding.LostUpdates {
		t.Fatalf("%d pictures: %+v", len(got), got)
	}
	if got[0].Summary.String() != "buyer 2 and buyer 1 read 10; another buyer waits" ||
		len(got[0].Also) != 1 || got[0].Also[0].Kind != finding.Overlaps || got[0].Also[0].Summary.String() != "buyer 2 is in beside buyer 1" {
		t.Errorf("%q, also %+v", got[0].Summary, got[0].Also)
	}
	mark := got[0].Lanes[2].Marks[0]
	if mark.Who != "buyer 1 (api-2)" || mark.Of != "buyer 2 (api-1)" || mark.Label.String() != "the release of buyer 1 deletes the lock of buyer 2" {
		t.Errorf("%+v", mark)
	}
	actors := []string{"buyer 1 (api-2)", "buyer 2 (api-1)", "buyer 3 (api-1)", "buyer 3 (api-1), again"}
	for _, w := range got {
		if !slices.Equal(w.Actors, actors) {
			t.Errorf("actors %q, want %q", w.Actors, actors)
		}
	}
	fail.Unequal(t, got[2].Lanes[1].Name, actors[3], "a lane is named")
	if first.Lanes[0].Name != "buyer 53 (api-2)" {
		t.Error("the given witness was changed")
	}
}

// The scenario's own names stay.
func TestGatherKeepsNames(t *testing.T) {
	w := picture("", "buyer 10 overtakes buyer 2", 0, 1, "buyer 10 (process-1)", "buyer 2 (process-2)")
	if got := witness.Gather([]finding.Witness{w}); got[0].Summary.String() != w.Summary.String() || got[0].Lanes[0].Name != w.Lanes[0].Name {
		t.Errorf("%+v", got)
	}
}
