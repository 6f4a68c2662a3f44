// Package report shows what the laboratory found: a witness as lanes in a terminal ([Lanes]) and as a picture ([SVG]),
// and a whole run as one self-contained page ([HTML], [WriteDir]).
//
// A picture and its lanes show the same in the same order: the actors on top, the stores below them, on one time axis.
// Every actor has a colour and a letter, in its own lane and wherever a store names it. What should not have happened
// is outlined and crossed. Nothing is shown by colour alone.
//
// Pictures are laid out here and not in the browser. Labels are measured with the widths of DejaVu Sans, which are
// wider than those of the fonts of other systems: labels that do not collide there do not collide elsewhere.
package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// Report is the result of a run of the laboratory.
type Report struct {
	Entries []Entry // in the order of the catalogue; those of one Group stand together
	Started time.Time
	Took    time.Duration
	Machine string // such as "linux/amd64, 2 cores"
	Engine  finding.Engine
	Seed    int64
	Command string // the command that repeats the run
	// Language is that of the page; "": English. The texts of the entries are in it.
	Language i18n.Language
	// Kinds are the columns of the matrix; none: [finding.Kinds].
	Kinds []finding.Info
}

// Entry is an experiment with its result and its texts.
type Entry struct {
	Result      finding.Result
	Hypothesis  string
	Arrangement string
	Verdict     string // how it came out, told from the run
	Why         string
	Cure        string
	Partner     string // the id of the experiment with the other verdict
	Sources     []Source
	Reports     []Link // public reports of real programs that had the fault
	// Setup is what the hypothesis is about, as JSON; shown on demand.
	Setup json.RawMessage
	// K6 is the command that shows the same over HTTP; "" if it cannot be seen there.
	K6 string
}

// Source is a section that describes the failure.
type Source struct {
	Document, Section string
}

// Link is a page elsewhere.
type Link struct{ Text, URL string }

// File is the page that [WriteDir] writes.
const File = "index.html"

// WriteDir writes the report into a folder, and creates the folder if necessary. It replaces the page atomically: a
// reader finds the old page or the new one.
func WriteDir(dir string, r Report) error {
	return WritePage(dir, func(w io.Writer) error { return HTML(w, r) })
}

// WritePage writes another page in the same way.
func WritePage(dir string, write func(io.Writer) error) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	temp, err := os.CreateTemp(dir, "."+File+".*")
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	defer func() {
		if err != nil {
			_ = temp.Close() // it may already be closed, and the first error counts
			_ = os.Remove(temp.Name())
		}
	}()
	if err := write(temp); err != nil {
		return err
	}
	return finish(temp, filepath.Join(dir, File))
}

// finish renames the finished temporary file.
func finish(temp *os.File, path string) error {
	if err := temp.Chmod(0o644); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := temp.Close(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// HTML writes the report as one page that loads nothing from the network.
func HTML(w io.Writer, r Report) error {
	if r.Language == "" {
		r.Language = i18n.English
	}
	t, err := pageTemplate(r.Language)
	if err != nil {
		return err
	}
	if err := t.Execute(w, newPage(r)); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

//go:embed page.html.tmpl
var pageHTML string

//go:embed page.css
var pageCSS string

// PageCSS is the stylesheet of the report around its pictures.
func PageCSS() template.CSS { return template.CSS(pageCSS) }

func pageTemplate(l i18n.Language) (*template.Template, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"t":         func(format string, values ...any) string { return i18n.Key(format, values...).In(l) },
		"in":        func(text i18n.Text) string { return text.In(l) },
		"histogram": func(latency *finding.Latency) *histogram { return newHistogram(latency, l) },
		"num":       num,
		"took":      took,
		"seconds":   func(ms int64) string { return took(time.Duration(ms) * time.Millisecond) },
	}).Parse(pageHTML)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return t, nil
}

// took formats a duration.
func took(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// page is the data of the template.
type page struct {
	Report
	CSS    template.CSS
	Script template.JS    // plays the pictures
	Counts map[string]int // by outcome
	Total  int
	Odd    []entry // what is not as expected
	Groups []group
	Go     string
}

// group is the experiments about one failure.
type group struct {
	ID, Title string
	Entries   []entry
}

// entry is an experiment with data derived from its result.
type entry struct {
	Entry
	Outcome  outcome
	Cells    []cell
	Counts   []count
	Pictures []Picture
	Answers  []answer
	Other    *Entry // its partner
	Pretty   string // the setup
}

// outcome compares the result with the expectation.
type outcome struct {
	Class, Sign string
	Text        string
}

// cell is a field of the matrix.
type cell struct {
	N     int
	About bool
	Title string
}

// count is a kind of anomaly that was seen, or looked for.
type count struct {
	finding.Info
	N     int
	About bool
}

// Picture is a witness of a result as a page shows it.
type Picture struct {
	finding.Witness
	Title string
	Told  []Told // what it shows besides
	Steps Player

	id       string // unique within the page
	language i18n.Language
}

// Told is another anomaly that a picture shows.
type Told struct{ Title, Summary string }

// SVG draws the witness in each size.
func (p Picture) SVG() (template.HTML, error) { return SVGs(p.Witness, p.id, p.language) }

// Pictures are those of a result, the deciding one first.
func Pictures(r finding.Result, l i18n.Language) (all []Picture) {
	wits := slices.Clone(r.More)
	if r.Witness != nil {
		wits = slices.Insert(wits, 0, *r.Witness)
	}
	for i, wit := range wits {
		p := Picture{Witness: wit, id: fmt.Sprintf("%s-w%d", r.ID, i), language: l, Title: titleOf(wit).In(l), Steps: NewPlayer(wit, l)}
		for _, also := range wit.Also {
			p.Told = append(p.Told, Told{titleOfKind(also.Kind).In(l), also.Summary.In(l)})
		}
		all = append(all, p)
	}
	return all
}

type answer struct {
	Code  string
	N     int
	Share float64 // of all, in percent
}

func newPage(r Report) page {
	if len(r.Kinds) == 0 {
		r.Kinds = finding.Kinds()
	}
	r.Kinds = slices.Clone(r.Kinds)
	for i, info := range r.Kinds {
		r.Kinds[i] = info.In(r.Language)
	}
	p := page{
		Report: r, CSS: PictureCSS() + PageCSS(), Script: PlayerScript(), Counts: map[string]int{}, Total: len(r.Entries),
		Go: runtime.Version(),
	}
	for _, e := range r.Entries {
		v := r.entry(e)
		p.Counts[v.Outcome.Class]++
		if v.Outcome.Class == "odd" || v.Outcome.Class == "failed" {
			p.Odd = append(p.Odd, v)
		}
		at := slices.IndexFunc(p.Groups, func(g group) bool { return g.Title == e.Result.Group })
		if at < 0 {
			at = len(p.Groups)
			p.Groups = append(p.Groups, group{ID: fmt.Sprintf("group-%d", at+1), Title: e.Result.Group})
		}
		p.Groups[at].Entries = append(p.Groups[at].Entries, v)
	}
	return p
}

// Tried is how many came to a verdict, or should have.
func (p page) Tried() int { return p.Total - p.Counts["skipped"] }

// AsExpected is how many came out as expected, or need not.
func (p page) AsExpected() int { return p.Counts["fine"] + p.Counts["broke"] }

// Columns is the number of columns of the matrix after the first one.
func (p page) Columns() int { return len(p.Kinds) + 1 }

func (r Report) entry(e Entry) entry {
	res := e.Result
	v := entry{Entry: e, Outcome: outcomeOf(res, r.Language), Answers: answers(res.Answers), Pictures: Pictures(res, r.Language), Pretty: pretty(e.Setup)}
	about := func(k finding.Kind) bool { return len(res.About) == 0 || slices.Contains(res.About, k) }
	for _, info := range r.Kinds {
		n := res.Anomalies[info.Kind]
		decides := about(info.Kind) && res.Skipped == ""
		v.Cells = append(v.Cells, cell{N: n, About: decides, Title: fmt.Sprintf("%s: %d", info.Title, n)})
		if n > 0 || decides && len(res.About) > 0 {
			v.Counts = append(v.Counts, count{Info: info, N: n, About: decides})
		}
	}
	for i := range r.Entries {
		if id := r.Entries[i].Result.ID; id == e.Partner && id != "" {
			v.Other = &r.Entries[i]
		}
	}
	return v
}

// outcomeOf tells what came out from whether it was predicted: what broke has the colour of what is broken also if that
// was expected.
func outcomeOf(res finding.Result, l i18n.Language) outcome {
	class, sign, verb := "fine", "✓", i18n.F("held")
	if res.Observed == finding.Breaks {
		class, sign, verb = "broke", "✗", i18n.F("broke")
	}
	switch {
	case res.Failed != "":
		return outcome{"failed", "?", i18n.F("no verdict").In(l)}
	case res.Skipped != "":
		return outcome{"skipped", "–", i18n.F("skipped").In(l)}
	case res.Turned:
		return outcome{class, sign, i18n.F("%s, turned by the change", verb).In(l)}
	case len(res.Changed) > 0:
		return outcome{class, sign, i18n.F("%s, not turned by the change", verb).In(l)}
	case res.AsExpected:
		return outcome{class, sign, i18n.F("%s, as predicted", verb).In(l)}
	}
	return outcome{"odd", "≠", i18n.F("not as predicted").In(l)}
}

// answers lists the codes, the most frequent first.
func answers(byCode map[string]int) []answer {
	total := 0
	for _, n := range byCode {
		total += n
	}
	var list []answer
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		list = append(list, answer{code, byCode[code], 100 * float64(byCode[code]) / float64(max(total, 1))})
	}
	slices.SortStableFunc(list, func(a, b answer) int { return b.N - a.N })
	return list
}

func pretty(data json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "  "); err != nil {
		return strings.TrimSpace(string(data)) // shown as it is
	}
	return out.String()
}

// Engines names what it ran on.
func (p page) Engines() []string {
	var used []string
	for _, e := range []string{p.Engine.Redis, p.Engine.Database, p.Engine.ZooKeeper} {
		if e != "" {
			used = append(used, e)
		}
	}
	return used
}

// Sizes of a histogram, in its own units.
const (
	histogramWidth  = 380.0
	histogramHeight = 140.0
	histogramTop    = 20.0
	histogramFoot   = 112.0
)

// histogram is the layout of a latency distribution.
type histogram struct {
	Width, Height, Foot px
	Bars                []histogramBar
	Ticks               []pictureTick
	Lines               []histogramLine
}

type histogramBar struct {
	X, Y, W, H px
	Full       string
}

// histogramLine is a percentile.
type histogramLine struct {
	X    px
	Text string
}

// newHistogram lays out a distribution, with bars of equal width. Without buckets it is nil.
func newHistogram(l *finding.Latency, language i18n.Language) *histogram {
	if l == nil || len(l.Buckets) == 0 {
		return nil
	}
	h := &histogram{Width: histogramWidth, Height: histogramHeight, Foot: histogramFoot}
	most := 1
	for _, b := range l.Buckets {
		most = max(most, b.Count)
	}
	left, right := edge, histogramWidth-edge
	step := (right - left) / float64(len(l.Buckets))
	last, below := -1e9, 0.0
	for i, b := range l.Buckets {
		x := left + float64(i)*step
		height := float64(b.Count) / float64(most) * (histogramFoot - histogramTop)
		if b.Count > 0 {
			height = max(height, 1.5)
		}
		h.Bars = append(h.Bars, histogramBar{
			X: px(x + 0.5), Y: px(histogramFoot - height), W: px(max(step-1, 0.5)), H: px(height),
			Full: i18n.F("%s from %s to %s ms", num(float64(b.Count)), num(below), num(b.UpToMS)).In(language),
		})
		below = b.UpToMS
		text := num(b.UpToMS)
		if i == 0 {
			text += " ms"
		}
		w := textWidth(text, smallSize)
		at := min(max(x+step-w/2, 2), histogramWidth-2-w)
		if at >= last+10 {
			h.Ticks = append(h.Ticks, pictureTick{X: px(at), Text: text})
			last = at + w
		}
	}
	last = -1e9
	for _, p := range []histogramLine{{Text: "p50"}, {Text: "p90"}, {Text: "p99"}} {
		value := map[string]float64{"p50": l.P50MS, "p90": l.P90MS, "p99": l.P99MS}[p.Text]
		x := left + step*position(l.Buckets, value)
		w := textWidth(p.Text, smallSize)
		if x-w/2 < last+4 {
			p.Text = "" // the numbers beside the picture show it
		} else {
			last = x + w/2
		}
		p.X = px(min(x, histogramWidth-2-w/2))
		h.Lines = append(h.Lines, p)
	}
	return h
}

// position returns where among the buckets a value lies.
func position(buckets []finding.Bucket, value float64) float64 {
	below := 0.0
	for i, b := range buckets {
		if value <= b.UpToMS {
			if b.UpToMS <= below {
				return float64(i)
			}
			return float64(i) + max(0, value-below)/(b.UpToMS-below)
		}
		below = b.UpToMS
	}
	return float64(len(buckets))
}
