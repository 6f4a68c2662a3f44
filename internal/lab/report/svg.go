package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

//go:embed picture.svg.tmpl
var pictureTemplate string

//go:embed picture.css
var pictureCSS string

// SVGs draws a witness in each size; the stylesheet shows the one that fits. See [SVG].
func SVGs(wit finding.Witness, id string, lang i18n.Language) (template.HTML, error) {
	wide, err := SVG(wit, id, lang, Wide, ByTime)
	if err != nil {
		return "", err
	}
	narrow, err := SVG(wit, id+"-narrow", lang, Narrow, ByTime)
	return wide + "\n" + narrow, err
}

// SVG draws a witness in a language, for a page that has the stylesheet [PictureCSS]. The id must be
// unique within the page.
func SVG(wit finding.Witness, id string, lang i18n.Language, size Size, scale Scale) (template.HTML, error) {
	t, err := template.New("picture").Funcs(pictureFuncs()).Parse(pictureTemplate)
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	var out strings.Builder
	if err := t.Execute(&out, draw(wit, id, lang, size, scale)); err != nil {
		return "", fmt.Errorf("report: drawing %s: %w", id, err)
	}
	// The template has escaped the texts of the witness.
	return template.HTML(out.String()), nil //nolint:gosec // see above
}

// PictureCSS is the stylesheet of the pictures, light and dark as the reader's system is.
func PictureCSS() template.CSS { return template.CSS(pictureCSS) }

func pictureFuncs() template.FuncMap {
	return template.FuncMap{
		"colour": colour,
		"hatch": func(id string, owner int) string {
			return fmt.Sprintf("url(#%s-hatch%d)", id, colourNumber(owner))
		},
		"crosses": func(m pictureMark) bool { return m.Moment != m.X },
	}
}

// colour is the class of an owner's colour.
func colour(owner int) string { return fmt.Sprintf("o%d", colourNumber(owner)) }

// Path is the outline of the bar: a bar that continues after the picture ends in a point.
func (b pictureBar) Path() string {
	if b.Open {
		const point = 8
		return fmt.Sprintf("M%s %sh%sl%d %sl-%d %sh-%sz", b.X, b.Y, b.W-point, point, b.H/2, point, b.H/2, b.W-point)
	}
	r := min(5, b.W/2)
	return fmt.Sprintf("M%[1]s %[2]sh%[3]sa%[5]s %[5]s 0 0 1 %[5]s %[5]sv%[4]sa%[5]s %[5]s 0 0 1 -%[5]s %[5]sh-%[3]sa%[5]s %[5]s 0 0 1 -%[5]s -%[5]sv-%[4]sa%[5]s %[5]s 0 0 1 %[5]s -%[5]sz",
		b.X+r, b.Y, b.W-2*r, b.H-2*r, r)
}

// Hatched reports whether the bar is a period without work.
func (b pictureBar) Hatched() bool { return b.Kind == finding.Waits || b.Kind == finding.Paused }

// HatchOwner decides the colour of the hatch: a pause is grey for every owner.
func (b pictureBar) HatchOwner() int {
	if b.Kind == finding.Paused {
		return 0
	}
	return b.Owner
}

// stack gives every span a row such that those of one row do not cover each other.
// The bars of an actor's own deeds stand above those of what happens to it.
func stack(spans []finding.Span, covers func(a, b finding.Span) bool) (rows [][]finding.Span) {
	sorted := slices.Clone(spans)
	slices.SortStableFunc(sorted, func(a, b finding.Span) int {
		return cmp.Or(cmp.Compare(suffers(a), suffers(b)), cmp.Compare(a.From, b.From))
	})
	for _, s := range sorted {
		i := slices.IndexFunc(rows, func(row []finding.Span) bool {
			return !slices.ContainsFunc(row, func(o finding.Span) bool { return covers(o, s) })
		})
		if i < 0 {
			i, rows = len(rows), append(rows, nil)
		}
		rows[i] = append(rows[i], s)
	}
	return rows
}

func suffers(s finding.Span) int {
	switch s.Kind {
	case finding.Transacts:
		return 1
	case finding.Paused, finding.Down:
		return 2
	}
	return 0
}

// bars lays out the spans of a lane. labels are the texts that do not fit inside their bars.
func (d *drawing) bars(lane finding.Lane, y float64) (bars []pictureBar, labels []*markLabel, bottom float64) {
	rows := stack(lane.Spans, func(a, b finding.Span) bool {
		aFrom, aTo := d.extent(a)
		bFrom, bTo := d.extent(b)
		return aFrom < bTo-0.5 && bFrom < aTo-0.5
	})
	at := len(d.pic.Lanes)
	for _, row := range rows {
		for _, s := range row {
			bar, beside := d.bar(lane, s, y)
			bars = append(bars, bar)
			if beside != "" {
				if name := letter(bar.Owner); name != "" && lane.Role != finding.Actor && beside != name {
					beside = name + ": " + beside
				}
				x := float64(bar.X + bar.W/2)
				labels = append(labels, &markLabel{
					label: d.label(x, beside, s.Wrong, false),
					from:  y + barHeight,
					mark:  pictureMark{Step: d.stepOf(at, lane, s), Owner: bar.Owner, Wrong: s.Wrong, Full: bar.Full},
				})
			}
		}
		y += barHeight + barGap
	}
	return bars, labels, y - barGap
}

// stepOf is the step that a span of a lane begins with.
func (d *drawing) stepOf(at int, lane finding.Lane, s finding.Span) int {
	i := slices.IndexFunc(lane.Spans, func(o finding.Span) bool { return o.Kind == s.Kind && o.From == s.From && o.Who == s.Who })
	return int(d.byStep[at].Spans[i].From)
}

// extent is where a span is drawn; the shortest is still seen.
func (d *drawing) extent(s finding.Span) (from, to float64) {
	from, to = d.x(s.From), d.x(s.To)
	if s.Open {
		to = max(to, d.right) + 10
	}
	return from, max(to, from+4)
}

// bar lays out a span. A text that has to be told and has no room is to stand beside it.
func (d *drawing) bar(lane finding.Lane, s finding.Span, y float64) (bar pictureBar, beside string) {
	from, to := d.extent(s)
	told, must := spanText(s, lane.Role)
	text := told.In(d.lang)
	owner := d.actors.owner(lane, s.Who)
	bar = pictureBar{
		X: px(from), Y: px(y), W: px(to - from), H: barHeight,
		Kind: s.Kind, Owner: owner, Wrong: s.Wrong, Open: s.Open,
		Full: i18n.F("%s: %s to %s ms", told, num(d.ms(s.From)), num(d.ms(s.To))).In(d.lang),
	}
	if s.Open {
		bar.Full = i18n.F("%s: from %s ms on", told, num(d.ms(s.From))).In(d.lang)
	}
	size, inner := labelSize, to-from-14
	if s.Wrong {
		size *= bolder
	}
	if s.Open {
		inner -= 8
	}
	textX := from + 8
	if lane.Role != finding.Actor && owner > 0 && inner >= 18 {
		bar.Letter, bar.LetterX = letter(owner), px(from+8+7)
		textX += 22
		inner -= 22
	}
	if w := textWidth(text, size); w <= inner {
		bar.Text, bar.TextX, bar.TextY = text, px(textX), px(y+barHeight/2+5)
		return bar, ""
	}
	if !must || bar.Letter != "" && s.Label.IsZero() {
		return bar, ""
	}
	return bar, text
}

// wrongs shades the time at which most of what should not be is at once, and rules
// the moments of what should not have happened.
func (d *drawing) wrongs(bottom float64) {
	var edges []float64
	var spans []finding.Span
	for _, lane := range d.lanes {
		for _, s := range lane.Spans {
			if s.Wrong {
				spans = append(spans, s)
				edges = append(edges, s.From, s.To)
			}
		}
		for _, m := range lane.Marks {
			switch {
			case m.Wrong:
				d.pic.Rules = append(d.pic.Rules, px(d.x(m.At)))
			case m.Cause:
				d.pic.Causes = append(d.pic.Causes, px(d.x(m.At)))
			}
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	depth := func(from, to float64) (n int) {
		for _, s := range spans {
			if s.From <= from && to <= s.To {
				n++
			}
		}
		return n
	}
	most := 0
	for i := 1; i < len(edges); i++ {
		most = max(most, depth(edges[i-1], edges[i]))
	}
	for i := 1; i < len(edges); i++ {
		if n := depth(edges[i-1], edges[i]); n == most && n > 0 {
			from, to := d.x(edges[i-1]), d.x(edges[i])
			d.pic.Bands = append(d.pic.Bands, pictureBar{X: px(from), Y: axisHeight, W: px(max(to-from, 2)), H: px(bottom - axisHeight)})
		}
	}
}

// legendItem explains a way of drawing: of a span or a mark.
type legendItem struct {
	X, Y  px // of its sample
	TextX px
	TextY px
	Span  finding.SpanKind
	Mark  finding.MarkKind
	Wrong bool
	Cause bool
	Text  string
}

// legend explains what is used, from y on, and returns where it ends.
func (d *drawing) legend(y float64) float64 {
	spans, marks, wrong, cause := d.used()
	var items []legendItem
	for _, k := range spanKinds() {
		if spans[k.kind] {
			items = append(items, legendItem{Span: k.kind, Text: k.means.In(d.lang)})
			if k.kind == finding.Waits || k.kind == finding.Paused {
				d.hatches()
			}
		}
	}
	for _, k := range markKinds() {
		if marks[k.kind] {
			items = append(items, legendItem{Mark: k.kind, Text: k.means.In(d.lang)})
		}
	}
	if cause {
		items = append(items, legendItem{Cause: true, Text: i18n.F("the cause").In(d.lang)})
	}
	if wrong {
		items = append(items, legendItem{Wrong: true, Text: i18n.F("should not be").In(d.lang)})
	}
	x := edge
	for i := range items {
		item := &items[i]
		sample := 22.0
		if item.Mark != "" {
			sample = symbolSize
		}
		w := sample + 6 + textWidth(item.Text, smallSize)
		if x > edge && x+w > d.width-edge {
			x, y = edge, y+22
		}
		item.X, item.Y, item.TextX, item.TextY = px(x), px(y), px(x+sample+6), px(y+14)
		x += w + 18
	}
	d.pic.Legend = items
	return y + 20
}

func (d *drawing) used() (spans map[finding.SpanKind]bool, marks map[finding.MarkKind]bool, wrong, cause bool) {
	spans, marks = map[finding.SpanKind]bool{}, map[finding.MarkKind]bool{}
	for _, lane := range d.lanes {
		for _, s := range lane.Spans {
			// An actor's bar that has a text of its own is not what the kind means otherwise.
			own := (s.Kind == finding.Held || s.Kind == finding.Waits) && !s.Label.IsZero()
			spans[s.Kind] = spans[s.Kind] || !own
			wrong = wrong || s.Wrong
		}
		for _, m := range lane.Marks {
			marks[m.Kind] = true
			wrong, cause = wrong || m.Wrong, cause || m.Cause
		}
	}
	return spans, marks, wrong, cause
}

// hatches asks for a hatch in every owner's colour; 0 is the one of nobody.
func (d *drawing) hatches() {
	d.pic.Owners = d.pic.Owners[:0]
	for i := range min(len(d.actors), ownerColours) + 1 {
		d.pic.Owners = append(d.pic.Owners, i)
	}
}
