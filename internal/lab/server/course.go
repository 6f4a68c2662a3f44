package server

import (
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"seckill/internal/lab/course"
	"seckill/internal/lab/finding"
	"seckill/internal/lab/i18n"
)

// courseJSON is the course, and how far its owner is. The command line shares the progress: it is read each time.
type courseJSON struct {
	Folder  string       `json:"folder"`
	Next    string       `json:"next"` // the id of a lesson; "": all are done
	Lessons []lessonJSON `json:"lessons"`
}

type lessonJSON struct {
	ID      string                     `json:"id"`
	Number  int                        `json:"number"`
	Title   map[i18n.Language]string   `json:"title"`
	Goal    map[i18n.Language]string   `json:"goal"`
	Level   map[i18n.Language]string   `json:"level"`
	Minutes int                        `json:"minutes"`
	Hints   []map[i18n.Language]string `json:"hints"` // those that were asked for
	More    bool                       `json:"more"`  // there is another hint
	Tasks   []taskJSON                 `json:"tasks"`
}

type taskJSON struct {
	Kind       course.Kind              `json:"kind"`
	Ask        map[i18n.Language]string `json:"ask"`
	Experiment string                   `json:"experiment"`
	Lock       string                   `json:"lock"`
	Done       bool                     `json:"done"`
	Right      bool                     `json:"right"`
	Command    string                   `json:"command"`
}

// course is GET /api/course.
func (s *Server) course(w http.ResponseWriter, _ *http.Request) error {
	if s.config.Course == "" {
		return errNotFound
	}
	s.progress.Lock()
	defer s.progress.Unlock()
	p, err := course.Load(s.config.Course)
	if err != nil {
		return err
	}
	s.following = true
	return writeJSON(w, http.StatusOK, s.newCourse(p))
}

func (s *Server) newCourse(p *course.Progress) courseJSON {
	folder := s.config.Course
	next, _, _ := p.Next()
	all := courseJSON{Folder: folder, Next: next.ID}
	for i, l := range course.Lessons() {
		one := lessonJSON{
			ID: l.ID, Number: i + 1, Title: l.Title.All(), Goal: l.Goal.All(), Level: l.Level.Text().All(), Minutes: l.Minutes,
			Hints: []map[i18n.Language]string{}, Tasks: []taskJSON{},
		}
		mine := p.Lessons[l.ID]
		if mine == nil {
			mine = &course.LessonProgress{}
		}
		for _, hint := range l.Hints[:mine.Hints] {
			one.Hints = append(one.Hints, hint.All())
		}
		one.More = mine.Hints < len(l.Hints)
		number := strconv.Itoa(i + 1)
		file := filepath.Join(folder, "lesson"+number, "main.go")
		for n, t := range l.Tasks {
			task := taskJSON{
				Kind: t.Kind, Ask: t.Ask(s.config.Experiments, file).All(), Experiment: t.Experiment, Lock: t.Lock, Command: "go run ./cmd/lab check " + number,
			}
			if t.Kind == course.Repair {
				task.Command = "go run ./cmd/lab course next && " + task.Command + " --watch"
			}
			if task.Done = n < len(mine.Tasks); task.Done {
				task.Right = mine.Tasks[n].Right
			}
			one.Tasks = append(one.Tasks, task)
		}
		all.Lessons = append(all.Lessons, one)
	}
	return all
}

// hint is POST /api/course/hint.
func (s *Server) hint(w http.ResponseWriter, r *http.Request) error {
	var asked struct {
		Lesson string `json:"lesson"`
	}
	if err := readJSON(w, r, &asked); err != nil {
		return err
	}
	l, _, err := course.Find(asked.Lesson)
	switch {
	case s.config.Course == "":
		return errNotFound
	case err != nil:
		return because(errInvalid, err)
	}
	s.progress.Lock()
	defer s.progress.Unlock()
	p, err := course.Load(s.config.Course)
	if err != nil {
		return err
	}
	p.Hint(l, time.Now())
	if err := p.Save(s.config.Course); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.newCourse(p))
}

// credit counts a run of the page for the course, if it does the task that comes next. It leaves no file for who has
// not begun the course, nor looked at it here. A folder that cannot be written costs the credit, and not the run.
func (s *Server) credit(r *finding.Result) {
	if s.config.Course == "" {
		return
	}
	s.progress.Lock()
	defer s.progress.Unlock()
	if !s.following && !course.Begun(s.config.Course) {
		return
	}
	if p, err := course.Load(s.config.Course); err == nil && p.Credit(r, time.Now()) {
		_ = p.Save(s.config.Course)
	}
}
