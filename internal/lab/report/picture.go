package report

import (
	"cmp"
	"slices"
	"strconv"

	"seckill/internal/lab/finding"
)

// Sizes of a picture, in its own units. A page shows it between 800 and 1200
// pixels wide.
const (
	pictureWidth = 960.0
	edge         = 10.0
	barHeight    = 27.0
	barGap       = 4.0
	lanePad      = 9.0
	nameSize     = 16.0
	smallSize    = 14.0
	badgeRadius  = 10.0
	axisHeight   = 34.0
)

// px is a length, printed with one decimal.
type px float64

func (p px) String() string { return strconv.FormatFloat(float64(p), 'f', 1, 64) }

// picture is the layout of a witness; its template draws it.
type picture struct {
	ID, Title, Desc string
	Width, Height   px
	Left, Right     px // of the plot
	Top, Bottom     px
	Split           px // between actors and stores; 0: none
	Ticks           []pictureTick
	Lanes           []pictureLane
	Bands           []pictureBar // when something is wrong
	Rules           []px
	Owners          []int // that need a hatch
	Legend          []legendItem
}

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
	Kind         finding.MarkKind // "": no symbol
	Owner        int
	Moment, From px // on the bar
	X, Y         px // of the symbol
	LineTo       px // the end of the line down to the text; 0: none
	Text         string
	TextX, TextY px
	Wrong        bool
	Full         string
}

// draw lays out a witness.
func draw(wit finding.Witness, id string) *picture {
	d := drawing{actors: newActorIndex(wit.Lanes), lanes: arranged(wit.Lanes)}
	d.from, d.to = period(d.lanes)
	d.left, d.right = edge+d.gutter(), pictureWidth-edge-12
	d.pic = &picture{
		ID: id, Title: titleOf(wit), Desc: wit.Summary,
		Width: pictureWidth, Left: px(d.left), Right: px(d.right), Top: axisHeight,
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
	d.wrongs(y)
	d.pic.Height = px(d.legend(y+10) + 6)
	return d.pic
}

func titleOf(wit finding.Witness) string {
	for _, info := range finding.Kinds() {
		if info.Kind == wit.Kind {
			return "How it comes to " + info.Title
		}
	}
	return "How it is prevented"
}

// drawing is a picture under construction.
type drawing struct {
	pic         *picture
	actors      actorIndex
	lanes       []finding.Lane
	from, to    float64 // ms
	left, right float64
}

func (d *drawing) x(ms float64) float64 {
	return d.left + (ms-d.from)/(d.to-d.from)*(d.right-d.left)
}

// gutter is the width of the lanes' names.
func (d *drawing) gutter() float64 {
	room := 80.0
	for _, lane := range d.lanes {
		name, detail := nameOf(lane)
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
func nameOf(lane finding.Lane) (name, detail string) {
	name = shortName(lane.Name)
	if rest := lane.Name[len(name):]; len(rest) > 2 {
		detail = rest[2:]
		if detail[len(detail)-1] == ')' {
			detail = detail[:len(detail)-1]
		}
	}
	return name, detail
}

func (d *drawing) axis() {
	last := -1e9
	times := ticks(d.from, d.to, 9)
	for i, t := range times {
		text, anchor := num(t), "middle"
		if i == 0 {
			text += " ms"
		}
		x, w := d.x(t), textWidth(text, smallSize)
		left := x - w/2
		if x+w/2 > pictureWidth-2 {
			left, anchor = x-w, "end"
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
	name, detail := nameOf(lane)
	nameX := d.nameLeft(lane)
	room := d.left - 8 - nameX
	out := pictureLane{
		Y: px(y), NameX: px(nameX), Full: lane.Name, Store: lane.Role != finding.Actor,
		Name: fitText(name, nameSize*bolder, room), Detail: fitText(detail, smallSize, room),
	}
	if lane.Role == finding.Actor {
		out.Owner = d.actors[lane.Name]
		out.Letter = letter(out.Owner)
	}
	bars, labels, bottom := d.bars(lane, y+lanePad)
	if len(lane.Spans) == 0 {
		bottom = y + lanePad
	}
	for i := range lane.Marks {
		labels = append(labels, d.mark(lane, lane.Marks[i]))
	}
	out.Bars = bars
	if len(labels) > 0 {
		if len(lane.Spans) > 0 {
			bottom += 4
		}
		bottom = d.rail(&out, labels, bottom)
	}
	height := max(bottom+lanePad-y, 46)
	if detail != "" {
		height = max(height, 56)
	}
	out.H = px(height)
	out.NameY = px(y + lanePad + 18)
	out.BadgeY = px(y + lanePad + 13)
	out.DetailY = px(y + lanePad + 34)
	d.pic.Lanes = append(d.pic.Lanes, out)
	return height
}

// markLabel is a label with the mark that it becomes.
type markLabel struct {
	label

	mark pictureMark
	from float64 // the y at which its line begins; 0: the rail
}

func (d *drawing) mark(lane finding.Lane, m finding.Mark) *markLabel {
	owner := d.actors.owner(lane, m.Who)
	text := markText(m)
	if lane.Role != finding.Actor && owner > 0 {
		text = letter(owner) + ": " + text
	}
	full := num(m.At) + " ms: " + text
	if m.Who != "" && m.Who != lane.Name {
		full += " (" + m.Who + ")"
	}
	return &markLabel{
		label: d.label(d.x(m.At), text, m.Wrong, true),
		mark:  pictureMark{Kind: m.Kind, Owner: owner, Wrong: m.Wrong, Full: full},
	}
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
	text = fitText(text, size, pictureWidth-edge-d.left-30)
	return label{moment: x, text: text, width: textWidth(text, size), symbol: symbol}
}

// rail lays out marks and texts below a lane's bars and returns where it ends.
func (d *drawing) rail(out *pictureLane, labels []*markLabel, y float64) float64 {
	plain := make([]*label, len(labels))
	for i, f := range labels {
		plain[i] = &f.label
	}
	rows := place(plain, d.left-10, pictureWidth-edge)
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
