package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"strings"

	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

//go:embed picture.svg.tmpl
var pictureTemplate string

//go:embed picture.css
var pictureCSS string

// ownerColours is the number of colours. After that they repeat, and the letters go on.
const ownerColours = 7

// SVGs draws a witness in each size; the stylesheet shows the one that fits. See [SVG].
func SVGs(wit finding.Witness, id string, lang i18n.Language) (template.HTML, error) {
	wide, err := SVG(wit, id, lang, Wide)
	if err != nil {
		return "", err
	}
	narrow, err := SVG(wit, id+"-narrow", lang, Narrow)
	return wide + "\n" + narrow, err
}

// SVG draws a witness in a language, for a page that has the stylesheet [PictureCSS]. The id must be
// unique within the page.
func SVG(wit finding.Witness, id string, lang i18n.Language, size Size) (template.HTML, error) {
	t, err := template.New("picture").Funcs(pictureFuncs()).Parse(pictureTemplate)
	if err != nil {
		return "", fmt.Errorf("report: %w", err)
	}
	var out strings.Builder
	if err := t.Execute(&out, draw(wit, id, lang, size)); err != nil {
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

func colourNumber(owner int) int {
	if owner <= 0 {
		return 0
	}
	return (owner-1)%ownerColours + 1
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
