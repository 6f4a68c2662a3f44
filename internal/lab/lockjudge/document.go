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
	Broken     int              `json:"broken"` // behaviours that break, comforts not counted
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
	History []Step `json:"history,omitempty"`
}

// Step is an event before a behaviour broke.
type Step struct {
	AtMS float64 `json:"at_ms"`
	Who  string  `json:"who"`
	What string  `json:"what"`
}

// NewDocument joins the results.
func NewDocument(name, engine string, took time.Duration, results []Judged, sales []finding.Result) Document {
	d := Document{Lock: name, Engine: engine, DurationMS: took.Milliseconds(), Behaviours: []Behaviour{}, Sales: sales}
	for _, r := range results {
		b := Behaviour{
			Name: string(r.Behaviour), Means: r.Behaviour.Description(), Grade: r.Grade.String(),
			Held: r.Untried == "" && r.Broken == "", Untried: r.Untried,
		}
		if r.Untried == "" {
			b.Seen = r.Broken
		}
		if b.Seen != "" && r.Grade < Comfort {
			d.Broken++
		}
		for _, e := range r.History {
			b.History = append(b.History, Step{float64(e.At.Microseconds()) / 1000, e.Who, e.What})
		}
		d.Behaviours = append(d.Behaviours, b)
	}
	return d
}
