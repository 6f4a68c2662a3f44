package lockjudge

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/report"
)

//go:embed page.html.tmpl
var pageHTML string

// pageCSS is what this page has besides the report's.
const pageCSS = `
.history { border-collapse: collapse; font-size: .92rem; } .history th { font-weight: 600; text-align: left; white-space: nowrap; }
.history td, .history th { padding: .15rem 1rem .15rem 0; vertical-align: top; } .history td:first-child { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
`

// Page writes the judgement as one page that loads nothing from the network, with the pictures of
// the report.
func (d Document) Page(w io.Writer) error {
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("lockjudge: %w", err)
	}
	data, err := newPage(d)
	if err != nil {
		return err
	}
	if err := t.Execute(w, data); err != nil {
		return fmt.Errorf("lockjudge: %w", err)
	}
	return nil
}

// page is the data of the template.
type page struct {
	Document
	CSS     template.CSS
	Script  template.JS
	Seconds int64
	Tried   int
	Broken  []shownBehaviour // hides the number
	Held    []Behaviour
	Untried []Behaviour
	Sales   []shownSale
}

type shownBehaviour struct {
	Behaviour
	Comfort bool
	History []shownStep
}

type shownStep struct {
	Step
	At string
}

// shownSale is a sale with its pictures.
type shownSale struct {
	finding.Result
	Breaks    bool
	Pictures  []picture
	Anomalies []counted
	Answers   []counted
}

type picture struct {
	Title, Summary string
	Also           []titled
	SVG            template.HTML
	Steps          report.Player
}

type titled struct{ Title, Summary string }

type counted struct {
	Title, Means string
	N            int
}

func newPage(d Document) (page, error) {
	p := page{Document: d, CSS: report.PictureCSS() + report.PageCSS() + pageCSS, Script: report.PlayerScript(), Seconds: d.DurationMS / 1000}
	for _, b := range d.Behaviours {
		switch {
		case b.Untried != "":
			p.Untried = append(p.Untried, b)
			continue
		case b.Held:
			p.Held = append(p.Held, b)
		default:
			shown := shownBehaviour{Behaviour: b, Comfort: b.Grade == Comfort.String()}
			for _, s := range b.History {
				shown.History = append(shown.History, shownStep{s, fmt.Sprintf("%.1f", s.AtMS)})
			}
			p.Broken = append(p.Broken, shown)
		}
		p.Tried++
	}
	for _, r := range d.Sales {
		shown, err := showSale(r)
		if err != nil {
			return p, err
		}
		p.Sales = append(p.Sales, shown)
	}
	return p, nil
}

func showSale(r finding.Result) (shownSale, error) {
	shown := shownSale{Result: r, Breaks: r.Observed == finding.Breaks}
	title := map[finding.Kind]string{"": "How the lock is passed on"}
	for _, info := range finding.Kinds() {
		title[info.Kind] = "How it comes to " + info.Title
		if slices.Contains(r.About, info.Kind) {
			shown.Anomalies = append(shown.Anomalies, counted{info.Title, info.Means, r.Anomalies[info.Kind]})
		}
	}
	for _, code := range slices.Sorted(maps.Keys(r.Answers)) {
		shown.Answers = append(shown.Answers, counted{Title: code, N: r.Answers[code]})
	}
	all := slices.Clone(r.More)
	if r.Witness != nil {
		all = slices.Insert(all, 0, *r.Witness)
	}
	for i, w := range all {
		svg, err := report.SVGs(w, fmt.Sprintf("%s-w%d", r.ID, i), i18n.English)
		if err != nil {
			return shown, err
		}
		p := picture{Title: title[w.Kind], Summary: w.Summary.In(i18n.English), SVG: svg, Steps: report.NewPlayer(w, i18n.English)}
		for _, also := range w.Also {
			p.Also = append(p.Also, titled{title[also.Kind], also.Summary.In(i18n.English)})
		}
		shown.Pictures = append(shown.Pictures, p)
	}
	return shown, nil
}
