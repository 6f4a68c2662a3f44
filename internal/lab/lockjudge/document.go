package lockjudge

import (
	"time"

	"seckill/internal/lab/explore"
	"seckill/internal/lab/finding"
)

// Document is the whole judgement as JSON.
type Document struct {
	Lock       string `json:"lock"`
	Engine     string `json:"engine"`
	DurationMS int64  `json:"duration_ms"`
	// Explored is what the explorer has found before, of a lock in Go.
	Explored   *explore.Result  `json:"explored,omitempty"`
	Headline   string           `json:"headline"`
	Since      []string         `json:"since,omitempty"` // what has changed since the last time
	Broken     int              `json:"broken"`          // behaviours that break, without comforts and what the lock leaves out
	Behaviours []Behaviour      `json:"behaviours"`
	Sales      []finding.Result `json:"sales"`
}

// Behaviour is a result in a [Document].
type Behaviour struct {
	Name    string `json:"name"`
	Means   string `json:"means"`
	Grade   string `json:"grade"`
	Held    bool   `json:"held"`
	Seen    string `json:"seen,omitempty"`    // of one that breaks
	Untried string `json:"untried,omitempty"` // why it was not tried
	LeftOut bool   `json:"left_out,omitempty"`
	History []Step `json:"history,omitempty"`
}

// Step is an event before a behaviour broke.
type Step struct {
	AtMS float64 `json:"at_ms"`
	Who  string  `json:"who"`
	What string  `json:"what"`
}

// NewDocument is a judgement as JSON; took is the time with the sales.
func NewDocument(j *Judgement, took time.Duration) Document {
	d := Document{
		Lock: j.Name, Engine: j.Engine, DurationMS: took.Milliseconds(), Headline: j.Headline(), Since: j.Since,
		Behaviours: []Behaviour{}, Sales: j.Sales,
	}
	for _, r := range j.Results {
		b := Behaviour{
			Name: string(r.Behaviour), Means: r.Behaviour.Description(), Grade: r.Grade.String(), LeftOut: r.LeftOut,
			Held: r.Untried == "" && r.Broken == "", Untried: r.Untried,
		}
		if r.Untried == "" {
			b.Seen = r.Broken
		}
		if r.Counts() {
			d.Broken++
		}
		for _, e := range r.History {
			b.History = append(b.History, Step{float64(e.At.Microseconds()) / 1000, e.Who, e.What})
		}
		d.Behaviours = append(d.Behaviours, b)
	}
	return d
}
