package experiments

import (
	"embed"
	"fmt"
	"strings"

	"seckill/internal/lab"
)

//go:embed text/*.txt
var textFiles embed.FS

// readText reads the text of a comparison: its heading, and the texts of its experiments.
func readText(name string) (group string, texts []lab.Experiment, err error) {
	data, err := textFiles.ReadFile("text/" + name + ".txt")
	if err != nil {
		return "", nil, err
	}
	return parse(string(data))
}

// parse reads a text file:
//
//	# the heading of the comparison
//
//	## the id of an experiment
//	Title: a text, which may
//	  continue on indented lines
//	Source: 000: the heading of a section of that document
//
// The fields are those of [lab.Experiment]. Source may be repeated, K6 may be missing, and
// Seen and Cure are for experiments that break. [lab.Set.Validate] finds what is missing.
func parse(text string) (group string, texts []lab.Experiment, err error) {
	unfolded := strings.ReplaceAll(text, "\n  ", " ")
	for line := range strings.Lines(unfolded) {
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
		"Why": &e.Why, "Seen": &e.Seen, "Cure": &e.Cure,
	}[name]
	if !ok || *field != "" || value == "" {
		return false
	}
	*field = value
	return true
}
