package experiments

import (
	"embed"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"seckill/internal/lab"
)

//go:embed text/*.txt text/zh/*.txt
var textFiles embed.FS

// readText reads the text of a comparison, in both languages: its heading, and the texts of its experiments.
func readText(name string) (group string, texts []lab.Experiment, err error) {
	english, err := textFiles.ReadFile("text/" + name + ".txt")
	if err != nil {
		return "", nil, err
	}
	if group, texts, err = parse(string(english)); err != nil {
		return "", nil, err
	}
	chinese, err := textFiles.ReadFile("text/zh/" + name + ".txt")
	if err != nil {
		return "", nil, err
	}
	inChinese, theirs, err := parse(string(chinese))
	if err != nil {
		return "", nil, fmt.Errorf("in Chinese: %w", err)
	}
	if len(theirs) != len(texts) {
		return "", nil, fmt.Errorf("%d texts in English and %d in Chinese", len(texts), len(theirs))
	}
	for i := range texts {
		if texts[i].ID != theirs[i].ID {
			return "", nil, fmt.Errorf("the Chinese text of %q is where that of %q belongs", theirs[i].ID, texts[i].ID)
		}
		theirs[i].Group = inChinese
		texts[i].Chinese = theirs[i].English()
	}
	return group, texts, nil
}

// parse reads a text file:
//
//	# the heading of the comparison
//
//	## the id of an experiment
//	Title: a text, which may
//	  continue on indented lines
//	Source: NAME: the heading of a section of the document NAME, as in [lab.Documents]
//
// The fields are those of [lab.Experiment]. Source may be repeated. Decision stands where there is no source. K6 may be
// missing. Seen and Cure are for experiments that break. [lab.Set.Validate] finds what is missing. The Chinese text has
// the same fields without Source, Decision and K6, which are of both languages.
func parse(text string) (group string, texts []lab.Experiment, err error) {
	for line := range strings.Lines(unfold(text)) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "# "); ok && group == "" {
			group = heading
			continue
		}
		if id, ok := strings.CutPrefix(line, "## "); ok {
			texts = append(texts, lab.Experiment{ID: id})
			continue
		}
		if line == "" {
			continue
		}
		if len(texts) == 0 {
			return "", nil, fmt.Errorf("%q is before the first experiment", line)
		}
		if e := &texts[len(texts)-1]; !setField(e, line) {
			return "", nil, fmt.Errorf("%s: %q is no field, or is there twice", e.ID, line)
		}
	}
	return group, texts, nil
}

// unfold joins the lines of each field. A line break is a space, but not where Chinese has none.
func unfold(text string) string {
	lines := strings.Split(text, "\n  ")
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			before, _ := utf8.DecodeLastRuneInString(lines[i-1])
			after, _ := utf8.DecodeRuneInString(line)
			inChinese := unicode.Is(unicode.Han, before) && unicode.Is(unicode.Han, after)
			if !inChinese && !chinesePunctuation(before) && !chinesePunctuation(after) {
				b.WriteByte(' ')
			}
		}
		b.WriteString(line)
	}
	return b.String()
}

func chinesePunctuation(r rune) bool {
	return strings.ContainsRune("，。；：？！、（）“”", r)
}

// setField reports false for a line that is no field, or one that the experiment has already.
func setField(e *lab.Experiment, line string) bool {
	name, value, _ := strings.Cut(line, ": ")
	switch name {
	case "Source":
		document, section, ok := strings.Cut(value, ": ")
		e.Sources = append(e.Sources, lab.Source{Document: document, Section: section})
		return ok
	case "K6":
		once := e.K6 == nil
		e.K6 = strings.Fields(value)
		return once
	}
	field, ok := map[string]*string{
		"Title": &e.Title, "Question": &e.Question, "Hypothesis": &e.Hypothesis, "Arrangement": &e.Arrangement,
		"Decision": &e.Decision, "Why": &e.Why, "Seen": &e.Seen, "Cure": &e.Cure,
	}[name]
	if !ok || *field != "" || value == "" {
		return false
	}
	*field = value
	return true
}
