package course

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"seckill/internal/lab/finding"
)

// The head of a progress file.
const (
	fileFormat  = "seckill course"
	fileVersion = 1
	// maxFile is how long one may be: it has programs in it.
	maxFile = 4 << 20
	// ProgressFile is its name in the folder of the course.
	ProgressFile = "progress.json"
)

// Progress is how far somebody has come, with the answers, so that they can be checked again. It is a file, which the command
// line and the page share: whoever changes it reads it first.
type Progress struct {
	Format  string                     `json:"format"`
	Version int                        `json:"version"`
	Name    string                     `json:"name,omitempty"`
	Lessons map[string]*LessonProgress `json:"lessons"` // by id
}

// LessonProgress is that of a lesson.
type LessonProgress struct {
	Started time.Time `json:"started"`
	Hints   int       `json:"hints,omitempty"` // how many were asked for
	Tasks   []Done    `json:"tasks"`           // by the number of the task; those to come are missing
	Tries   int       `json:"tries,omitempty"` // answers to the task that comes next
}

// Done is a task that is done.
type Done struct {
	At     time.Time `json:"at"`
	Right  bool      `json:"right"`
	Tries  int       `json:"tries"` // with the one that was right
	Answer string    `json:"answer"`
}

// Load reads the progress in a folder. Without a file it is that of somebody who begins.
func Load(folder string) (*Progress, error) {
	p, err := ReadProgress(filepath.Join(folder, ProgressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &Progress{Format: fileFormat, Version: fileVersion, Lessons: map[string]*LessonProgress{}}, nil
	}
	return p, err
}

// Begun reports whether a folder has progress.
func Begun(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, ProgressFile))
	return err == nil
}

// ReadProgress reads a file of progress.
func ReadProgress(path string) (*Progress, error) {
	if info, err := os.Stat(path); err == nil && info.Size() > maxFile {
		return nil, fmt.Errorf("course: %s is longer than %d MiB", path, maxFile>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var p Progress
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("course: %s: %w", path, err)
	}
	if p.Format != fileFormat || p.Version != fileVersion {
		return nil, fmt.Errorf("course: %s is no progress of the course that this version knows (format %q, version %d)", path, p.Format, p.Version)
	}
	if p.Lessons == nil {
		p.Lessons = map[string]*LessonProgress{}
	}
	for id, l := range p.Lessons {
		if lesson, _, err := Find(id); err != nil || l == nil || len(l.Tasks) > len(lesson.Tasks) {
			return nil, fmt.Errorf("course: %s: it has a lesson %q that this version does not have", path, id)
		}
		if l.Hints < 0 || l.Hints > len(Lesson{}.Hints) {
			return nil, fmt.Errorf("course: %s: of the lesson %q it has %d hints", path, id, l.Hints)
		}
	}
	return &p, nil
}

// Save writes the progress, whole or not at all: Ctrl-C loses nothing.
func (p *Progress) Save(folder string) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return err
	}
	f, err := os.CreateTemp(folder, ProgressFile+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(folder, ProgressFile))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Of is the progress of a lesson, which begins now if it has not.
func (p *Progress) Of(l Lesson, now time.Time) *LessonProgress {
	one := p.Lessons[l.ID]
	if one == nil {
		one = &LessonProgress{Started: now, Tasks: []Done{}}
		p.Lessons[l.ID] = one
	}
	return one
}

// Task is the number of the task of a lesson that comes next, and whether there is one.
func (p *Progress) Task(l Lesson) (n int, open bool) {
	if one := p.Lessons[l.ID]; one != nil {
		n = len(one.Tasks)
	}
	return n, n < len(l.Tasks)
}

// Next is the first lesson that is not done.
func (p *Progress) Next() (l Lesson, number int, ok bool) {
	for i, l := range Lessons() {
		if _, open := p.Task(l); open {
			return l, i + 1, true
		}
	}
	return Lesson{}, 0, false
}

// Add records an answer to the task of a lesson that comes next.
func (p *Progress) Add(l Lesson, o Outcome, now time.Time) {
	one := p.Of(l, now)
	one.Tries++
	if o.Done {
		one.Tasks = append(one.Tasks, Done{At: now, Right: o.Right, Tries: one.Tries, Answer: o.Answer})
		one.Tries = 0
	}
}

// Hint is the next hint of a lesson, counted from 1; the last one again after that.
func (p *Progress) Hint(l Lesson, now time.Time) (n int) {
	one := p.Of(l, now)
	one.Hints = min(one.Hints+1, len(l.Hints))
	return one.Hints
}

// Minutes is how long a lesson took, or has taken so far; 0 if it has not begun. A night between two answers counts as
// what is usual between two.
func (p *Progress) Minutes(l Lesson) int {
	one := p.Lessons[l.ID]
	if one == nil {
		return 0
	}
	last, total := one.Started, time.Duration(0)
	for _, d := range one.Tasks {
		total += min(d.At.Sub(last), longestTask)
		last = d.At
	}
	return int(total.Round(time.Minute).Minutes())
}

// longestTask is more than any task takes.
const longestTask = 45 * time.Minute

// Credit counts a run for the task of a lesson that comes next, if it does that: one with a prediction, or with changed numbers
// that hold. It reports whether it did.
func (p *Progress) Credit(r *finding.Result, now time.Time) bool {
	for _, l := range Lessons() {
		n, open := p.Task(l)
		if !open || l.Tasks[n].Experiment != r.ID || r.Observed == "" {
			continue
		}
		switch t := l.Tasks[n]; {
		case t.Kind == Predict && len(r.Changed) == 0 && r.PredictionRight != nil && r.AsExpected:
			p.Add(l, Outcome{Done: true, Right: *r.PredictionRight, Answer: r.Prediction}, now)
			return true
		case t.Kind == Hold && t.allows(r.Changed) && r.Observed == finding.Holds:
			var values []string
			for _, c := range r.Changed {
				values = append(values, c.Name+"="+c.To)
			}
			p.Add(l, Outcome{Done: true, Right: true, Answer: strings.Join(values, " ")}, now)
			return true
		}
	}
	return false
}

// allows reports whether something was changed, and nothing but what may be.
func (t Task) allows(changed []finding.Change) bool {
	return len(changed) > 0 && !slices.ContainsFunc(changed, func(c finding.Change) bool { return !slices.Contains(t.Allowed, c.Name) })
}
