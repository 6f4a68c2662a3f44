package report_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
	"seckill/internal/testkit/fail"
)

var update = flag.Bool("update", false, "write the golden files anew")

func witnesses() map[string]finding.Witness {
	return map[string]finding.Witness{
		"wrong-release": wrongRelease(), "paused": paused(false), "fenced": paused(true), "crowd": crowd(), "killed": killed(),
	}
}

func lanes(t *testing.T, wit finding.Witness, width int, colour bool) string {
	t.Helper()
	var out strings.Builder
	fail.NowIf(t, report.Lanes(&out, wit, width, colour, i18n.English))
	return out.String()
}

func TestLanesAreAsDrawn(t *testing.T) {
	for name, wit := range witnesses() {
		for _, width := range []int{80, 120} {
			file := filepath.Join("testdata", name+"-"+strconv.Itoa(width)+".txt")
			t.Run(filepath.Base(file), func(t *testing.T) {
				drawn := lanes(t, wit, width, false)
				if *update {
					fail.NowIf(t, os.WriteFile(file, []byte(drawn), 0o644))
				}
				want, err := os.ReadFile(file)
				fail.NowIf(t, err)
				if drawn != string(want) {
					t.Errorf("not as in %s (go test -update writes it anew):\n%s", file, drawn)
				}
				for line := range strings.Lines(drawn) {
					if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
						t.Errorf("a line of %d columns: %s", n, line)
					}
				}
			})
		}
	}
}

func TestLanesSayTheSameInColour(t *testing.T) {
	codes := regexp.MustCompile("\x1b\\[[0-9;]*m")
	for name, wit := range witnesses() {
		plain, coloured := lanes(t, wit, 100, false), lanes(t, wit, 100, true)
		if strings.Contains(plain, "\x1b") || !strings.Contains(coloured, "\x1b") {
			t.Errorf("%s: colour that nobody asked for, or none that somebody did", name)
		}
		if got := codes.ReplaceAllString(coloured, ""); got != plain {
			t.Errorf("%s: colour changes the text:\n%s", name, got)
		}
	}
}

func TestColourWanted(t *testing.T) {
	for _, c := range []struct {
		env      map[string]string
		terminal bool
		want     bool
	}{
		{nil, true, true},
		{nil, false, false},
		{map[string]string{"NO_COLOR": "1"}, true, false},
		{map[string]string{"TERM": "dumb"}, true, false},
	} {
		fail.Unequal(t, report.ColourWanted(func(k string) string { return c.env[k] }, c.terminal), c.want, "%v, terminal %v", c.env, c.terminal)
	}
}

func TestLanesOfAlmostNothing(t *testing.T) {
	for name, wit := range map[string]finding.Witness{
		"nothing":       {},
		"an empty lane": {Lanes: []finding.Lane{{Name: "a", Role: finding.Actor}}},
		"one moment":    {Lanes: []finding.Lane{{Role: finding.Database, Marks: []finding.Mark{{Kind: finding.Notes}}}}},
		"unknown kinds": {Lanes: []finding.Lane{{Name: "x", Role: "?", Spans: []finding.Span{{Kind: "?", To: 1}}, Marks: []finding.Mark{{Kind: "?"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			lanes(t, wit, 10, true)
			fail.If(t, fail.Of(report.SVGs(wit, "x", i18n.English)))
		})
	}
}

// Seven actors are distinguishable on light and on dark paper.
func TestEveryOwnerHasAColour(t *testing.T) {
	wit := finding.Witness{Summary: i18n.Plain("seven wait")}
	for i := range 7 {
		wit.Lanes = append(wit.Lanes, finding.Lane{
			Name: "buyer " + strconv.Itoa(i+1), Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Waits, To: 10}},
		})
	}
	svg, err := report.SVG(wit, "seven", i18n.English, report.Wide, report.ByTime)
	fail.NowIf(t, err)
	css := string(report.PictureCSS())
	for i := range 7 {
		name := "o" + strconv.Itoa(i+1)
		fail.Unequal(t, strings.Count(string(svg), `class="bar waits `+name+`"`), 1, "bars of colour %s", name)
		if n := strings.Count(css, "--"+name+": #"); n != 2 || !strings.Contains(css, "."+name+" {") {
			t.Errorf("colour %s is defined %d times", name, n)
		}
	}
}

// The legend does not contradict a bar's own text.
func TestLegendLeavesOutWhatBarsSay(t *testing.T) {
	const means = "holds the lock"
	wit := finding.Witness{Summary: i18n.Plain("in"), Lanes: []finding.Lane{{
		Name: "buyer 1", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, To: 10, Label: i18n.Plain("is inside")}},
	}}}
	for label, want := range map[string]bool{"is inside": false, "": true} {
		wit.Lanes[0].Spans[0].Label = i18n.Plain(label)
		svg, err := report.SVG(wit, "in", i18n.English, report.Wide, report.ByTime)
		fail.NowIf(t, err)
		text := strings.ReplaceAll(lanes(t, wit, 100, false), "\u00a0", " ")
		if strings.Contains(text, means) != want || strings.Contains(string(svg), means) != want {
			t.Errorf("labelled %q:\n%s\n%s", label, text, svg)
		}
	}
}

// What a sign means is told where it is drawn, also beside the short text of an experiment on one screen.
func TestBriefLegend(t *testing.T) {
	wit := finding.Witness{Lanes: []finding.Lane{{Name: "buyer 1", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Paused, To: 50, Label: i18n.Plain("paused")}},
		Marks: []finding.Mark{{Kind: finding.Wakes, At: 60}, {Kind: finding.Told, At: 90}}}}}
	var out strings.Builder
	fail.NowIf(t, report.Brief(&out, wit, 100, false, i18n.English))
	fail.Without(t, strings.ReplaceAll(out.String(), "\u00a0", " "), "△ is woken", "◇ learns that it holds no longer", "░░ stands still")
}

// The terminal tells the steps that the page plays.
func TestSteps(t *testing.T) {
	wit := finding.Witness{Kind: finding.StuckKeys, Lanes: []finding.Lane{
		{Name: "buyer 1", Role: finding.Actor, Spans: []finding.Span{{Kind: finding.Held, From: 1.25, To: 20_000}}, Marks: []finding.Mark{
			{Kind: finding.Killed, At: 20_000, Label: i18n.Plain("killed"), Cause: true},
		}},
		{Name: "buyer 2", Role: finding.Actor, Marks: []finding.Mark{{Kind: finding.Refuses, At: 20_100, Label: i18n.Plain("refused"), Wrong: true}}},
	}}
	var out strings.Builder
	fail.NowIf(t, report.Steps(&out, wit, 80, i18n.English))
	const want = "   1.2 ms   Buyer 1 gets the lock\n  20.00 s ! Buyer 1 is killed\n  20.10 s ✗ Buyer 2 is refused the lock\n"
	fail.Unequal(t, out.String(), want, "told")
	svg, err := report.SVG(wit, "long", i18n.English, report.Wide, report.ByTime)
	fail.NowIf(t, err)
	fail.Without(t, string(svg), ">0 s<", ">20<") // and not 20000
}
