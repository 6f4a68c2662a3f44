package report

import (
	"cmp"
	"slices"
	"strconv"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
	"seckill/internal/lab/steps"
)

// Sizes of a picture, in its own units. A page shows a wide one between 800 and 1200 pixels wide.
const (
	edge        = 10.0
	barHeight   = 27.0
	barGap      = 4.0
	lanePad     = 9.0
	nameSize    = 16.0
	smallSize   = 14.0
	badgeRadius = 10.0
	axisHeight  = 34.0
	nameHeight  = 25.0 // of a lane's name above its bars
)

// Size is the room that a picture is drawn for.
type Size string

// The sizes.
const (
	Wide   Size = "wide"   // the lanes' names stand to the left of them
	Narrow Size = "narrow" // for a phone: the names stand above the lanes
)

func (s Size) width() float64 {
	if s == Narrow {
		return 318
	}
	return 960
}

// ticks is the number of times on the axis that there is room for.
func (s Size) ticks() int {
	if s == Narrow {
		return 4
	}
	return 9
}

// Scale is what the width of a picture stands for.
type Scale string

// The scales.
const (
	ByTime  Scale = "time"
	BySteps Scale = "steps" // every step has the same width: nothing is crowded
)

// px is a length, printed with one decimal.
type px float64

func (p px) String() string { return strconv.FormatFloat(float64(p), 'f', 1, 64) }

// picture is the layout of a witness; its template draws it.
type picture struct {
	ID, Title, Desc string
	Size            Size
	Width, Height   px
	Left, Right     px // of the plot
	Top, Bottom     px
	Split           px // between actors and stores; 0: none
	Ticks           []pictureTick
	Lanes           []pictureLane
	Bands           []pictureBar // when something is wrong
	Rules           []px
	Causes          []px
	Owners          []int // that need a hatch
	Steps           []px  // of its walkthrough: where each one ends
	Legend          []legendItem
}

// Depth is the height of the lanes.
func (p *picture) Depth() px { return p.Bottom - p.Top }

type pictureTick struct {
	X      px
	Text   string
	Anchor string
}

// pictureLane is a lane with its contents.
type pictureLane struct {
	Y, H         px
	Name, Detail string
	NameX, NameY px
	DetailX      px
	DetailY      px
	BadgeY       px
	Owner        int
	Letter       string
	Full         string // the tooltip
	Store        bool
	Bars         []pictureBar
	Marks        []pictureMark
}

// pictureBar is a span.
type pictureBar struct {
	X, Y, W, H px
	Kind       finding.SpanKind
	Owner      int
	Letter     string
	LetterX    px
	Text       string
	TextX      px
	TextY      px
	Wrong      bool
	Open       bool
	Full       string
}

// pictureMark is a mark, or a text that had no room in its bar.
type pictureMark struct {
	Step         int              // of its walkthrough
	Kind         finding.MarkKind // "": no symbol
	Owner        int
	Moment, From px // on the bar
	X, Y         px // of the symbol
	LineTo       px // the end of the line down to the text; 0: none
	Text         string
	TextX, TextY px
	Wrong, Cause bool
	Full         string
}

// draw lays out a witness in a language.
func draw(wit finding.Witness, id string, lang i18n.Language, size Size, scale Scale) *picture {
	d := drawing{actors: newActorIndex(wit), lang: lang, size: size, scale: scale, width: size.width(), walk: steps.New(wit)}
	d.lanes, d.byStep = arranged(wit.Lanes), arranged(d.walk.ByStep.Lanes)
	d.from, d.to = period(d.lanes, wit.From, wit.Until)
	if scale == BySteps {
		d.lanes, d.from, d.to = d.byStep, -0.5, float64(len(d.walk.Steps))
	}
	d.left, d.right = edge+d.gutter(), d.width-edge-12
	d.pic = &picture{
		ID: id, Title: titleOf(wit).In(lang), Desc: wit.Summary.In(lang),
		Size: size, Width: px(d.width), Left: px(d.left), Right: px(d.right), Top: axisHeight,
	}
	d.axis()
	y := axisHeight
	for i, lane := range d.lanes {
		if i > 0 && lane.Role != finding.Actor && d.lanes[i-1].Role == finding.Actor {
			d.pic.Split = px(y)
		}
		y += d.lane(lane, y)
	}
	d.pic.Bottom = px(y)
	d.cursors()
	d.wrongs(y)
	d.pic.Height = px(d.legend(y+10) + 6)
	return d.pic
}

func titleOf(wit finding.Witness) i18n.Text {
	if title := titleOfKind(wit.Kind); !title.IsZero() {
		return i18n.F("How it comes to %s", title)
	}
	return i18n.F("How it is prevented")
}

// titleOfKind is the title of an anomaly; empty without one.
func titleOfKind(kind finding.Kind) i18n.Text {
	for _, info := range finding.Kinds() {
		if info.Kind == kind {
			return i18n.Key(info.Title)
		}
	}
	return i18n.Text{}
}

// drawing is a picture under construction.
type drawing struct {
	pic         *picture
	actors      actorIndex
	walk        steps.Walkthrough
	lanes       []finding.Lane
	byStep      []finding.Lane // the same, with the numbers of the steps in place of times
	lang        i18n.Language
	size        Size
	scale       Scale
	width       float64
	from, to    float64 // ms
	left, right float64
}

func (d *drawing) x(ms float64) float64 {
	return d.left + (ms-d.from)/(d.to-d.from)*(d.right-d.left)
}

// gutter is the width of the lanes' names.
func (d *drawing) gutter() float64 {
	if d.size == Narrow {
		return 0
	}
	room := 80.0
	for _, lane := range d.lanes {
		name, detail := d.nameOf(lane)
		w := max(textWidth(name, nameSize)*bolder, textWidth(detail, smallSize))
		room = max(room, d.nameLeft(lane)+w+14-edge)
	}
	return min(room, 230)
}

func (d *drawing) nameLeft(lane finding.Lane) float64 {
	if lane.Role == finding.Actor {
		return edge + 2*badgeRadius + 8
	}
	return edge
}

// nameOf splits "buyer 17 (api-1)" into the name and the detail.
func (d *drawing) nameOf(lane finding.Lane) (name, detail string) {
	all := i18n.Name(lane.Name).In(d.lang)
	name = shortName(all)
	if rest := all[len(name):]; len(rest) > 2 {
		detail = rest[2:]
		if detail[len(detail)-1] == ')' {
			detail = detail[:len(detail)-1]
		}
	}
	return name, detail
}

// cursors are where the picture ends after each step: behind its marks.
func (d *drawing) cursors() {
	for i, s := range d.walk.Steps {
		at := d.x(s.At) + symbolSize
		if d.scale == BySteps {
			at = d.x(float64(i) + 0.5)
		}
		d.pic.Steps = append(d.pic.Steps, px(at))
	}
}

// axis writes times above the lanes: round ones, or those of the steps.
func (d *drawing) axis() {
	last := -1e9
	type tick struct{ at, ms float64 }
	var all []tick
	for _, ms := range ticks(d.from, d.to, d.size.ticks()) {
		all = append(all, tick{ms, ms})
	}
	if d.scale == BySteps {
		all = nil
		for i, s := range d.walk.Steps {
			all = append(all, tick{float64(i), s.At})
		}
	}
	if len(all) == 0 {
		return
	}
	unit := unitOf(all[len(all)-1].ms)
	for i, t := range all {
		text, anchor := unit.of(t.ms), "middle"
		if d.scale == BySteps {
			text = unit.short(t.ms)
		}
		if i == 0 {
			text += " " + unit.name
		}
		x, w := d.x(t.at), textWidth(text, smallSize)
		left := x - w/2
		switch {
		case x+w/2 > d.width-2:
			left, anchor = x-w, "end"
		case left < 2:
			left, anchor = x, "start"
		}
		if left < last+8 {
			continue
		}
		last = left + w
		d.pic.Ticks = append(d.pic.Ticks, pictureTick{X: px(x), Text: text, Anchor: anchor})
	}
}

// lane lays out a lane from y on and returns its height.
func (d *drawing) lane(lane finding.Lane, y float64) float64 {
	out := d.heading(lane, y)
	top := y + lanePad // of the bars
	if d.size == Narrow {
		top += nameHeight
	}
	if lane.Role == finding.Actor {
		out.Owner = d.actors[lane.Name]
		out.Letter = letter(out.Owner)
	}
	bars, labels, bottom := d.bars(lane, top)
	if len(lane.Spans) == 0 {
		bottom = top
	}
	at := len(d.pic.Lanes)
	for i := range lane.Marks {
		m := d.mark(lane, lane.Marks[i])
		m.mark.Step = int(d.byStep[at].Marks[i].At)
		labels = append(labels, m)
	}
	out.Bars = bars
	if len(labels) > 0 {
		if len(lane.Spans) > 0 {
			bottom += 4
		}
		bottom = d.rail(&out, labels, bottom)
	}
	height := max(bottom+lanePad-y, 46)
	if out.Detail != "" {
		height = max(height, 56)
	}
	out.H = px(height)
	d.pic.Lanes = append(d.pic.Lanes, out)
	return height
}

// heading lays out the name of a lane that begins at y: to the left of its bars with the detail below, or above its
// bars with the detail behind.
func (d *drawing) heading(lane finding.Lane, y float64) pictureLane {
	name, detail := d.nameOf(lane)
	nameX := d.nameLeft(lane)
	out := pictureLane{
		Y: px(y), NameX: px(nameX), NameY: px(y + lanePad + 18), BadgeY: px(y + lanePad + 13),
		DetailX: px(nameX), DetailY: px(y + lanePad + 34),
		Full: i18n.Name(lane.Name).In(d.lang), Store: lane.Role != finding.Actor,
	}
	room := d.left - 8 - nameX
	if d.size != Narrow {
		out.Name, out.Detail = fitText(name, nameSize*bolder, room), fitText(detail, smallSize, room)
		return out
	}
	room = d.width - edge - nameX
	out.Name = fitText(name, nameSize*bolder, room)
	used := textWidth(out.Name, nameSize*bolder) + 8
	out.Detail = fitText(detail, smallSize, room-used)
	out.DetailX, out.DetailY = px(nameX+used), out.NameY
	return out
}

// markLabel is a label with the mark that it becomes.
type markLabel struct {
	label

	mark pictureMark
	from float64 // the y at which its line begins; 0: the rail
}

func (d *drawing) mark(lane finding.Lane, m finding.Mark) *markLabel {
	owner := d.actors.owner(lane, m.Who)
	text := d.actors.text(lane, m).In(d.lang)
	full := i18n.F("%s ms: %s", num(d.ms(m.At)), markText(m)).In(d.lang)
	if m.Who != "" && m.Who != lane.Name {
		full += " (" + i18n.Name(m.Who).In(d.lang) + ")"
	}
	return &markLabel{
		label: d.label(d.x(m.At), text, m.Wrong || m.Cause, true),
		mark:  pictureMark{Kind: m.Kind, Owner: owner, Wrong: m.Wrong, Cause: m.Cause, Full: full},
	}
}

// ms is a time in the picture, in ms.
func (d *drawing) ms(at float64) float64 {
	if d.scale != BySteps {
		return at
	}
	return d.walk.Steps[min(max(int(at), 0), len(d.walk.Steps)-1)].At
}

func (d *drawing) label(x float64, text string, wrong, mark bool) label {
	size, symbol := labelSize, symbolSize
	if wrong {
		size *= bolder
		symbol = ringSize
	}
	if !mark {
		symbol = 0
	}
	text = fitText(text, size, d.width-edge-d.left-30)
	return label{moment: x, text: text, width: textWidth(text, size), symbol: symbol}
}

// rail lays out marks and texts below a lane's bars and returns where it ends.
func (d *drawing) rail(out *pictureLane, labels []*markLabel, y float64) float64 {
	plain := make([]*label, len(labels))
	for i, f := range labels {
		plain[i] = &f.label
	}
	rows := place(plain, d.left-10, d.width-edge)
	slices.SortStableFunc(labels, func(a, b *markLabel) int { return cmp.Compare(a.at, b.at) })
	for _, f := range labels {
		m := f.mark
		m.Moment, m.X, m.Y = px(f.moment), px(f.at), px(y+rowHeight/2)
		m.From = px(max(y-6, f.from))
		m.Text, m.TextX = f.text, px(f.left)
		m.TextY = px(y + rowHeight*float64(f.row) + 15)
		switch {
		case f.row > 0 && f.left > f.at || f.row > 0 && f.left+f.width < f.at:
			m.LineTo = m.TextY - 2
		case f.row > 0:
			m.LineTo = m.TextY - 12
		case m.Kind == "":
			m.LineTo = m.TextY - 4
		}
		out.Marks = append(out.Marks, m)
	}
	return y + rowHeight*float64(rows)
}
