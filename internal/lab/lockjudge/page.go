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
	if err := t.Execute(w, newPage(d)); err != nil {
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
	Pictures  []report.Picture
	Anomalies []counted
	Answers   []counted
}

type counted struct {
	Title, Means string
	N            int
}

func newPage(d Document) page {
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
		p.Sales = append(p.Sales, showSale(r))
	}
	return p
}

func showSale(r finding.Result) shownSale {
	shown := shownSale{Result: r, Breaks: r.Observed == finding.Breaks, Pictures: report.Pictures(r, i18n.English)}
	for i, p := range shown.Pictures {
		if p.Kind == "" {
			shown.Pictures[i].Title = "How the lock is passed on"
		}
	}
	for _, info := range finding.Kinds() {
		if slices.Contains(r.About, info.Kind) {
			shown.Anomalies = append(shown.Anomalies, counted{info.Title, info.Means, r.Anomalies[info.Kind]})
		}
	}
	for _, code := range slices.Sorted(maps.Keys(r.Answers)) {
		shown.Answers = append(shown.Answers, counted{Title: code, N: r.Answers[code]})
	}
	return shown
}
